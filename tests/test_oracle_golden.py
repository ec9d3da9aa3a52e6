"""The plain-loop oracles against streams of the methods' released programs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracle.boostadapter import run_boostadapter
from oracle.dmn import run_dmn
from oracle.dpe import run_dpe
from oracle.mcp import run_mcp
from oracle.tda import run_tda

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> tuple[dict[str, NDArray[np.float32]], dict[str, Any]]:
    """A golden file's arrays and its hyper-parameters."""
    with np.load(GOLDEN / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files if file[key].ndim > 0}
        parameters = {key: file[key].item() for key in file.files if file[key].ndim == 0}
    return arrays, parameters


@pytest.mark.parametrize("name", ["mcp_a", "mcp_b"])
def test_mcp_without_promotion_equals_the_released_program(name: str) -> None:
    arrays, parameters = golden(name)
    parts = run_mcp(arrays["views"], arrays["text_prototypes"], **parameters, promotion=False)
    for part, rows in parts.items():
        np.testing.assert_allclose(rows, arrays[f"{part}_nopromotion"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["mcp_a", "mcp_b"])
def test_mcp_with_promotion_agrees_on_labels(name: str) -> None:
    """The released program shows a promoted item only when its class is next written, so only labels are compared."""
    arrays, parameters = golden(name)
    parts = run_mcp(arrays["views"], arrays["text_prototypes"], **parameters)
    for part, rows in parts.items():
        assert np.mean(rows.argmax(axis=1) == arrays[part].argmax(axis=1)) >= 0.97, part


def share_of_rows_within(ours: NDArray[np.float64], theirs: NDArray[np.float32], tolerance: float) -> float:
    return float(np.mean(np.abs(ours - theirs).max(axis=1) <= tolerance))


@pytest.mark.parametrize("name", ["tda_single_view", "tda_many_views"])
def test_tda_equals_the_released_program(name: str) -> None:
    arrays, parameters = golden(name)
    logits = run_tda(arrays["views"], arrays["text_prototypes"], **parameters)["logits"]
    assert share_of_rows_within(logits, arrays["logits"], 1e-3) >= 0.99


def test_boostadapter_equals_the_released_program() -> None:
    arrays, parameters = golden("boostadapter")
    released = json.loads(parameters["cfg"])
    positive, negative = released["positive"], released["negative"]
    logits = run_boostadapter(
        arrays["views"],
        arrays["text_prototypes"],
        parameters["logit_scale"],
        positive_slots=positive["shot_capacity"],
        positive_alpha=positive["alpha"],
        positive_beta=positive["beta"],
        boost_slots=released["delta"],
        negative_slots=negative["shot_capacity"],
        negative_alpha=negative["alpha"],
        negative_beta=negative["beta"],
        entropy_low=negative["entropy_threshold"]["lower"],
        entropy_high=negative["entropy_threshold"]["upper"],
        mask_low=negative["mask_threshold"]["lower"],
        mask_high=negative["mask_threshold"]["upper"],
    )["logits"]
    assert share_of_rows_within(logits, arrays["logits"], 1e-3) >= 0.99


@pytest.mark.parametrize("name", ["dpe_single_view", "dpe_many_views"])
def test_dpe_equals_the_released_program(name: str) -> None:
    arrays, parameters = golden(name)
    logits = run_dpe(arrays["views"], arrays["text_prototypes"], **parameters)["logits"]
    assert share_of_rows_within(logits, arrays["logits"], 2e-2) >= 0.99


def test_dmn_equals_the_released_program() -> None:
    arrays, parameters = golden("dmn")
    del parameters["kind"]  # says what the array is, not how it was made
    dynamic = run_dmn(arrays["views"], arrays["text_prototypes"], **parameters)["dynamic"]
    np.testing.assert_allclose(dynamic, arrays["logits"], atol=1e-4, rtol=0)
