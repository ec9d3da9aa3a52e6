"""The benchmark's yardsticks compute what the oracles compute, so that their times are honest."""

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.field_style import boostadapter, dmn, dpe, mcp, mcp_plus, tda
from benchmarks.synthetic import MEASURED_ON_CLIP, describe, make_features
from oracle.boostadapter import run_boostadapter
from oracle.dmn import run_dmn
from oracle.dpe import run_dpe
from oracle.mcp import run_mcp
from oracle.mcp_plus import run_mcp_plus
from oracle.tda import run_tda

PAIRS = {
    "tda": (tda.run, run_tda),
    "dmn": (dmn.run, run_dmn),
    "boostadapter": (boostadapter.run, run_boostadapter),
    "dpe": (dpe.run, run_dpe),
    "mcp": (mcp.run, run_mcp),
    "mcp_plus": (mcp_plus.run, run_mcp_plus),
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_field_style_equals_the_oracle(name: str) -> None:
    field_style, oracle = PAIRS[name]
    logit_scale = (
        40.0  # at CLIP's 100 the entropies of sure images are float32 noise, and which one a cache drops is chance
    )
    features, _, text = make_features(classes=10, dim=32, views=20, images=150, seed=3)
    ours: dict[str, Any] = field_style(torch.from_numpy(features), torch.from_numpy(text), logit_scale=logit_scale)
    reference = oracle(features, text, logit_scale)
    for part, rows in ours.items():
        distance = np.abs(rows.numpy() - reference[part]).max(axis=1)
        assert np.mean(distance < (2e-2 if name == "dpe" else 1e-3)) >= 0.99, part


def test_synthetic_features_look_like_clip() -> None:
    features, labels, text = make_features(classes=1000, dim=512, views=2, images=2000, seed=0)
    assert features.shape == (2000, 2, 512)
    assert features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=2), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(text, axis=1), 1, atol=1e-5)
    for name, figure in describe(features, labels, text).items():
        assert figure == pytest.approx(MEASURED_ON_CLIP[name], abs=0.06), name


def test_synthetic_features_depend_on_the_seed_only() -> None:
    one, same, other = (make_features(classes=7, dim=16, views=3, images=20, seed=seed) for seed in (5, 5, 6))
    for first, second in zip(one, same, strict=True):
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(one[0], other[0])
