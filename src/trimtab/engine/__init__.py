"""The engine: exact streaming at batch speed."""
