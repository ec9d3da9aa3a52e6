"""The joint loss of MCP++ as a number, against the closed-form gradients by finite differences."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trimtab.engine import Alignment, affinity, entropy_slopes
from trimtab.methods.joint_loss import LossInputs, LossWeights, joint_loss
from trimtab.methods.mcp_plus import loss_gradients

CLASSES, DIM, ALPHA, BETA, SCALE = 6, 7, 4.0, 5.0, 12.0
STEP = 1e-6


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.fixture
def situation() -> LossInputs:
    """Three views; class 3 holds nothing, every other class has negative items."""
    random = np.random.default_rng(5)
    visual = unit(random.normal(size=(CLASSES, DIM))) * random.uniform(0.6, 1.0, (CLASSES, 1))
    negative = random.normal(size=(CLASSES, DIM))
    visual[3], negative[::2] = 0, 0
    return LossInputs(
        views=unit(random.normal(size=(3, DIM))),
        text=unit(random.normal(size=(CLASSES, DIM))),
        visual=visual,
        negative=negative,
        against=random.uniform(0, 0.3, (3, CLASSES)),
        logit_scale=SCALE,
        alpha=ALPHA,
        beta=BETA,
    )


def closed_form(inputs: LossInputs, weights: LossWeights) -> tuple[Any, Any]:
    """What MCP++ computes for the same situation, in float64."""
    lengths = np.linalg.norm(inputs.visual, axis=1)
    units = np.divide(inputs.visual, lengths[:, None], out=np.zeros_like(inputs.visual), where=lengths[:, None] > 0)
    negative_lengths = np.linalg.norm(inputs.negative, axis=1)
    negatives = np.divide(
        inputs.negative,
        negative_lengths[:, None],
        out=np.zeros_like(inputs.negative),
        where=negative_lengths[:, None] > 0,
    )
    alignment = Alignment(
        inputs.text, weights.temperature, one_sided=weights.one_sided, tolerance=0.0, dtype=np.float64
    )
    for label in np.flatnonzero(lengths):
        alignment.write(int(label), units[label])
    support = affinity(inputs.views @ units.T, ALPHA, BETA) * (lengths > 0)
    slopes = weights.entropy * entropy_slopes(SCALE * inputs.views @ inputs.text.T + support - inputs.against)
    state: Any = SimpleNamespace(
        text=SimpleNamespace(units=inputs.text),
        prototypes=SimpleNamespace(units=units, lengths=lengths),
        negatives=SimpleNamespace(units=negatives, lengths=negative_lengths),
        alignment=alignment,
    )
    return loss_gradients(state, inputs.views, SCALE * slopes, BETA * slopes * support, weights.align, weights.contrast)


@pytest.mark.parametrize(
    "weights",
    [
        LossWeights(),
        LossWeights(entropy=1.0, align=0.0, contrast=0.0),
        LossWeights(entropy=0.0, align=1.0, contrast=0.0),
        LossWeights(entropy=0.0, align=1.0, contrast=0.0, temperature=0.3, one_sided=True),
        LossWeights(entropy=0.0, align=0.0, contrast=1.0),
    ],
    ids=["joint", "entropy", "align", "align, one-sided", "contrast"],
)
def test_finite_differences_equal_the_closed_form(situation: LossInputs, weights: LossWeights) -> None:
    zero = np.zeros((CLASSES, DIM))
    for side, gradient in enumerate(closed_form(situation, weights)):
        for place in np.ndindex(CLASSES, DIM):
            if side == 1 and not situation.visual[place[0]].any():
                assert gradient[place] == 0
                continue
            nudge = np.zeros_like(zero)
            nudge[place] = STEP
            there, back = (
                joint_loss(situation, *((sign * nudge, zero) if side == 0 else (zero, sign * nudge)), weights)
                for sign in (1, -1)
            )
            assert gradient[place] == pytest.approx((there - back) / (2 * STEP), abs=1e-7)


def test_the_joint_loss_is_the_weighted_sum(situation: LossInputs) -> None:
    zero = np.zeros((CLASSES, DIM))
    alone = [
        joint_loss(situation, zero, zero, LossWeights(entropy=a, align=b, contrast=c))
        for a, b, c in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    ]
    expected = alone[0] + 0.5 * alone[1] + 0.2 * alone[2]
    assert joint_loss(situation, zero, zero, LossWeights()) == pytest.approx(expected, rel=1e-12)
