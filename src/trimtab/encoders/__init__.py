"""Encoders: each turns images and texts into features of one space."""

from trimtab.encoders.base import Encoder
from trimtab.encoders.registry import load_encoder

__all__ = ["Encoder", "load_encoder"]
