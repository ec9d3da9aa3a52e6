"""The hyper-parameters that the methods' released programs use for each of the paper's data sets.

`preset("tda", "eurosat")` is TDA as its authors ran it on EuroSAT. THESE WERE CHOSEN WITH THE TEST SETS IN SIGHT: one
set of values per test set, none validated elsewhere; a figure made with them owes that to the labels. For data that
nobody has tuned on, use a method's defaults, the same for every data set: `make_method("tda")`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trimtab.data.catalog import find_entry
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.methods.base import Method


@dataclass(frozen=True)
class Released:
    """One data set's values. (alpha, beta) are those of A(x) = alpha exp(-beta (1 - x))."""

    mcp: tuple[float, float]
    mcp_plus_rate: float
    tda: tuple[float, float]  # BoostAdapter's too
    boost_slots: int
    dpe: tuple[float, float]
    dpe_rate: float
    dpe_align: float
    dmn_weight: float  # of the dynamic part; searched on the labels after the stream


#                          MCP        MCP++ lr TDA           +  DPE          lr    align DMN
RELEASED = {
    "imagenet": Released((5.5, 8.0), 6e-5, (2.0, 5.0), 0, (6.0, 5.0), 6e-4, 0.5, 1.0),
    "imagenet-a": Released((4.0, 3.0), 3e-4, (2.0, 5.0), 3, (6.0, 5.0), 3e-4, 2.5, 3.0),
    "imagenet-v2": Released((2.5, 1.0), 8e-5, (1.0, 8.0), 1, (3.0, 8.0), 5e-4, 0.5, 1.0),
    "imagenet-r": Released((1.0, 8.0), 8e-5, (1.0, 8.0), 3, (3.0, 8.0), 6e-4, 0.0, 0.3),
    "imagenet-sketch": Released((2.0, 3.0), 1e-4, (2.363, 7.45), 1, (7.0, 7.45), 6e-4, 0.2, 1.0),
    "caltech101": Released((5.0, 5.0), 8e-5, (5.0, 5.0), 2, (15.0, 5.0), 6e-4, 0.2, 0.3),
    "dtd": Released((5.0, 7.0), 6e-4, (2.0, 3.0), 0, (6.0, 3.0), 6e-4, 0.2, 10.0),
    "eurosat": Released((3.0, 8.0), 4e-4, (4.0, 8.0), 0, (3.0, 8.0), 5e-5, 0.2, 0.3),
    "fgvc-aircraft": Released((4.0, 5.0), 1e-4, (2.0, 2.0), 2, (6.0, 2.0), 6e-4, 0.2, 1.0),
    "food101": Released((1.0, 1.0), 2e-4, (1.0, 1.0), 3, (3.0, 1.0), 2e-4, 0.2, 0.3),
    "flowers102": Released((1.0, 8.0), 8e-4, (1.0, 5.0), 0, (2.5, 5.0), 1e-4, 0.2, 10.0),
    "oxford-pets": Released((2.0, 7.0), 4e-4, (2.0, 7.0), 0, (4.0, 7.0), 5e-5, 0.2, 1.0),
    "stanford-cars": Released((3.0, 4.0), 1e-4, (1.0, 7.0), 3, (3.0, 7.0), 1e-4, 1.5, 0.3),
    "sun397": Released((1.0, 2.0), 3e-4, (2.0, 3.0), 1, (6.0, 3.0), 2e-4, 0.2, 3.0),
    "ucf101": Released((1.0, 7.0), 8e-4, (3.0, 8.0), 0, (9.0, 8.0), 4e-4, 0.2, 0.3),
}
IMAGENET_VARIANTS = ("imagenet-a", "imagenet-v2", "imagenet-r", "imagenet-sketch")


def preset(method: str, dataset: str) -> Method:
    """A method with the values of its released program for one of the paper's 15 sets."""
    if method not in _MAKERS:
        raise TrimtabError(
            f"There are no released values for {method!r}; there are for {', '.join(_MAKERS)}. "
            "Other methods have one set of defaults: make_method(name)."
        )
    entry = find_entry(dataset)
    if entry is None:
        raise TrimtabError(f"There are no released values for {dataset!r}; there are for {', '.join(RELEASED)}.")
    return make_method(method, **_MAKERS[method](entry.name, RELEASED[entry.name]))


def _mcp(dataset: str, released: Released) -> dict[str, Any]:
    alpha, beta = released.mcp
    query = "confident_mean" if dataset == "imagenet-a" else "plain"
    return {"positive_alpha": alpha, "positive_beta": beta, "query": query}


def _mcp_plus(dataset: str, released: Released) -> dict[str, Any]:
    return {**_mcp(dataset, released), "learning_rate": released.mcp_plus_rate}


def _tda(dataset: str, released: Released) -> dict[str, Any]:
    alpha, beta = released.tda
    query = "confident_mean" if dataset in IMAGENET_VARIANTS else "plain"
    return {"positive_alpha": alpha, "positive_beta": beta, "query": query}


def _boostadapter(dataset: str, released: Released) -> dict[str, Any]:
    return {**_tda(dataset, released), "boost_slots": released.boost_slots}


def _dpe(dataset: str, released: Released) -> dict[str, Any]:
    alpha, beta = released.dpe
    return {
        "positive_alpha": alpha,
        "positive_beta": beta,
        "lr_text": released.dpe_rate,
        "lr_image": released.dpe_rate,
        "align_weight": released.dpe_align,
        "query": "confident_mean" if dataset == "imagenet-a" else "plain",
    }


def _dmn(dataset: str, released: Released) -> dict[str, Any]:  # noqa: ARG001
    return {"fusion": (1.0, released.dmn_weight)}


def _tps(dataset: str, released: Released) -> dict[str, Any]:  # noqa: ARG001
    return {"learning_rate": 5e-3 if dataset.startswith("imagenet") else 1e-3}


_MAKERS: dict[str, Callable[[str, Released], dict[str, Any]]] = {
    "mcp": _mcp,
    "mcp_plus": _mcp_plus,
    "tda": _tda,
    "boostadapter": _boostadapter,
    "dpe": _dpe,
    "dmn": _dmn,
    "tps": _tps,
}
