"""trimtab: zero-shot image classifiers that adapt, at test time, to the unlabeled images they meet.

The public names are listed in __init__.pyi and imported when they are first used, so `import trimtab` costs nothing.
"""

import logging

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

logging.getLogger(__name__).addHandler(logging.NullHandler())  # quiet unless the application asks (`trimtab -v`)
