"""Prompts learned from labeled images: `trimtab learn`, and the files that it writes.

Everything else in trimtab works without labels; what comes from here does not, and says so wherever it is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
