"""The engine: exact streaming at batch speed. This is the one door for methods, public for yours too.

    from trimtab.engine import Bank, Image, State, softmax

* An `Image` of a `Block` is seen by the text before any cache is asked (`Task` -> `Block`).
* A `Bank` holds what a method keeps, and is the one source of similarities.
* Read-outs (`MeanProducts`, `AffinitySums`, `RetrievalCosines`, `NegativePenalties`) make one number per class of them.
* A `State` is named arrays and nothing else, so that it can be saved, copied and counted.
* `number`, `slots`, `choice` and `switch` declare hyper-parameters with their meaning.

The names are listed in `__init__.pyi` and imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
