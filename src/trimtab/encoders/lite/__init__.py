"""The offline default encoder."""
