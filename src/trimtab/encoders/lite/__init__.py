"""The offline default encoder; once its parts are built, it runs without torch."""

from trimtab.encoders.lite.encoder import LiteEncoder, load

__all__ = ["LiteEncoder", "load"]
