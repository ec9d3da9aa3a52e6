"""trimtab: zero-shot image classifiers that adapt, at test time, to the unlabeled images they meet.

The public names are imported when they are first used, so that `import trimtab` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trimtab.checks import check_method
    from trimtab.classifier import Classifier
    from trimtab.encoders import load_encoder
    from trimtab.errors import TrimtabError
    from trimtab.features import FeatureStore
    from trimtab.fusion import oracle_weights
    from trimtab.methods import list_methods, make_method
    from trimtab.methods.boostadapter import BoostAdapter
    from trimtab.methods.dmn import DMN
    from trimtab.methods.dpe import DPE
    from trimtab.methods.mcp import MCP
    from trimtab.methods.mcp_plus import MCPPlus
    from trimtab.methods.tda import TDA
    from trimtab.methods.tps import TPS
    from trimtab.methods.zero_shot import ZeroShot
    from trimtab.methods.zero_vote import ZeroVote
    from trimtab.presets import preset
    from trimtab.stream import Prediction, Predictions, Stream
    from trimtab.task import Task

__version__ = "0.1.0"

_HOMES = {
    "BoostAdapter": "trimtab.methods.boostadapter",
    "Classifier": "trimtab.classifier",
    "DMN": "trimtab.methods.dmn",
    "DPE": "trimtab.methods.dpe",
    "FeatureStore": "trimtab.features",
    "MCP": "trimtab.methods.mcp",
    "MCPPlus": "trimtab.methods.mcp_plus",
    "Prediction": "trimtab.stream",
    "Predictions": "trimtab.stream",
    "Stream": "trimtab.stream",
    "TDA": "trimtab.methods.tda",
    "TPS": "trimtab.methods.tps",
    "Task": "trimtab.task",
    "TrimtabError": "trimtab.errors",
    "ZeroShot": "trimtab.methods.zero_shot",
    "ZeroVote": "trimtab.methods.zero_vote",
    "check_method": "trimtab.checks",
    "list_methods": "trimtab.methods",
    "load_encoder": "trimtab.encoders",
    "make_method": "trimtab.methods",
    "oracle_weights": "trimtab.fusion",
    "preset": "trimtab.presets",
}

__all__ = [
    "DMN",
    "DPE",
    "MCP",
    "TDA",
    "TPS",
    "BoostAdapter",
    "Classifier",
    "FeatureStore",
    "MCPPlus",
    "Prediction",
    "Predictions",
    "Stream",
    "Task",
    "TrimtabError",
    "ZeroShot",
    "ZeroVote",
    "check_method",
    "list_methods",
    "load_encoder",
    "make_method",
    "oracle_weights",
    "preset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
