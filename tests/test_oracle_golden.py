"""The plain-loop oracles against streams of the methods' released programs."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from oracle.mcp import run_mcp

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> tuple[dict[str, NDArray[np.float32]], dict[str, float]]:
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
