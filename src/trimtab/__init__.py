"""trimtab: zero-shot image classifiers that adapt, at test time, to the unlabeled images they meet.

The public names are imported when they are first used, so that `import trimtab` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.classifier import Classifier
    from trimtab.errors import TrimtabError
    from trimtab.features import FeatureStore
    from trimtab.fusion import oracle_weights
    from trimtab.methods import list_methods, make_method
    from trimtab.methods.mcp import MCP
    from trimtab.methods.zero_shot import ZeroShot
    from trimtab.stream import Prediction, Predictions, Stream
    from trimtab.task import Task

__version__ = "0.1.0"

_HOMES = {
    "Classifier": "trimtab.classifier",
    "FeatureStore": "trimtab.features",
    "MCP": "trimtab.methods.mcp",
    "Prediction": "trimtab.stream",
    "Predictions": "trimtab.stream",
    "Stream": "trimtab.stream",
    "Task": "trimtab.task",
    "TrimtabError": "trimtab.errors",
    "ZeroShot": "trimtab.methods.zero_shot",
    "list_methods": "trimtab.methods",
    "make_method": "trimtab.methods",
    "oracle_weights": "trimtab.fusion",
}

__all__ = [
    "MCP",
    "Classifier",
    "FeatureStore",
    "Prediction",
    "Predictions",
    "Stream",
    "Task",
    "TrimtabError",
    "ZeroShot",
    "list_methods",
    "make_method",
    "oracle_weights",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
