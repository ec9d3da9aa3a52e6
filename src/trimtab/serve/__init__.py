"""Streams behind HTTP: durable, many in one process, each with a way back. Names are imported when they are used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
