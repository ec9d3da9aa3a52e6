"""TPS, DPE and MCP++ in closed form against autograd, real AdamW steps, and the released program's streams."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gentle import gentle_stream
from oracle.dpe import run_dpe
from oracle.mcp_plus import Objective, Situation, run_mcp_plus, total_loss
from oracle.tps import run_tps
from test_cache_methods import (
    ORDERS,
    QUERIES,
    STREAMS,
    assert_equal_logits,
    assert_equal_streams,
    final_logits,
    golden,
)
from trimtab import make_method
from trimtab.engine.alignment import Alignment
from trimtab.engine.equations import affinity
from trimtab.engine.residuals import entropy_slopes, one_step, residual_gradients
from trimtab.methods.mcp_plus import contrast_term, loss_gradients
from trimtab.methods.three_cache_method import PAPER_FORM

SLOPES = {"entropy_weight": "entropy", "align_weight": "align", "contrast_weight": "contrast"}


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("eps", [1e-8, 1e-3])
def test_one_step_is_adamws(eps: float) -> None:
    random = np.random.default_rng(0)
    units, lengths = unit(random.normal(size=(5, 8))), random.uniform(0.5, 1.0, 5)
    gradients = random.normal(scale=1e-3, size=(5, 8))
    residual = torch.zeros(5, 8, dtype=torch.float64, requires_grad=True)
    residual.grad = torch.tensor(gradients)
    torch.optim.AdamW([residual], lr=1e-2, eps=eps, weight_decay=0.1).step()
    expected = unit(lengths[:, None] * units + residual.detach().numpy())
    np.testing.assert_allclose(one_step(units, lengths, gradients, 1e-2, eps), expected, atol=1e-12)


def test_entropy_slopes_and_projection_equal_autograd() -> None:
    random = np.random.default_rng(1)
    units, lengths, features = unit(random.normal(size=(6, 9))), random.uniform(0.5, 1.0, 6), random.normal(size=(3, 9))
    residual = torch.zeros(6, 9, dtype=torch.float64, requires_grad=True)
    moved = torch.nn.functional.normalize(torch.tensor(lengths[:, None] * units) + residual, dim=1)
    mean = (7.0 * torch.tensor(features) @ moved.T).softmax(dim=1).mean(dim=0)
    torch.special.entr(mean).sum().backward()
    slopes = 7.0 * entropy_slopes(7.0 * features @ units.T)
    np.testing.assert_allclose(residual_gradients(units, lengths, slopes, features), residual.grad, atol=1e-12)


@pytest.mark.parametrize("weights", [(1.0, 0.5, 0.2), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_mcp_plus_gradients_equal_autograd(weights: tuple[float, ...], one_sided: bool, temperature: float) -> None:
    """On random states, in float64: 3 views, classes with and without items, with and without negative items."""
    classes, dim, alpha, beta, scale = 8, 12, 4.0, 5.0, 30.0
    random = np.random.default_rng(7)
    text = unit(random.normal(size=(classes, dim)))
    views = unit(random.normal(size=(3, dim)))
    lengths = random.uniform(0.6, 1.0, classes) * (np.arange(classes) % 4 != 3)  # classes 3 and 7 hold nothing
    units = unit(random.normal(size=(classes, dim))) * (lengths > 0)[:, None]
    negative_lengths = random.uniform(0.6, 1.0, classes) * (np.arange(classes) % 2 == 1)
    negatives = unit(random.normal(size=(classes, dim)))
    against = random.uniform(0, 0.3, (3, classes))
    alignment = Alignment(text, temperature, one_sided=one_sided, tolerance=0.0, dtype=np.float64)
    for label in np.flatnonzero(lengths):
        alignment.write(int(label), unit(random.normal(size=dim)))  # replaced at once: the sums must follow
        alignment.write(int(label), units[label])

    support = affinity(views @ units.T, alpha, beta) * (lengths > 0)
    slopes = weights[0] * entropy_slopes(scale * views @ text.T + support - against)
    state: Any = SimpleNamespace(
        text=SimpleNamespace(units=text),
        prototypes=SimpleNamespace(units=units, lengths=lengths),
        negatives=SimpleNamespace(units=negatives, lengths=negative_lengths),
        alignment=alignment,
    )
    found = loss_gradients(state, views, scale * slopes, beta * slopes * support, weights[1], weights[2])

    present = [int(label) for label in np.flatnonzero(lengths)]
    situation = Situation(
        views=torch.tensor(views),
        text=torch.tensor(text),
        visual=torch.tensor((lengths[:, None] * units)[present]),
        present=present,
        negative_means={int(c): torch.tensor(negatives[c]) for c in np.flatnonzero(negative_lengths)},
        against=torch.tensor(against),
    )
    losses = [loss for loss, weight in zip(("entropy", "align", "contrast"), weights, strict=True) if weight]
    objective = Objective(scale, alpha, beta, losses, weights[1], weights[2], temperature, one_sided, view_fraction=1.0)
    residuals = [torch.zeros_like(rows, requires_grad=True) for rows in (situation.text, situation.visual)]
    total_loss(situation, objective, *residuals).backward()
    for ours, residual in zip((found[0], found[1][present]), residuals, strict=True):
        exact = np.zeros_like(ours) if residual.grad is None else residual.grad.numpy()
        np.testing.assert_allclose(ours, exact, atol=1e-8)
    assert not found[1][lengths == 0].any()


def test_prototypes_of_the_same_image_do_not_pull_at_each_other() -> None:
    """Eq. 9 has no slope there, however steep its logarithm is."""
    random = np.random.default_rng(3)
    units = unit(random.normal(size=(4, 512))).astype(np.float32)
    others = unit(units + 0.01 * random.normal(size=units.shape)).astype(np.float32)
    visual: Any = SimpleNamespace(units=units, lengths=np.array([1, 1, 1, 0], np.float32))
    negative: Any = SimpleNamespace(units=np.where(np.arange(4)[:, None] == 1, others, units), lengths=np.ones(4))
    slopes, _ = contrast_term(visual, negative, 0.2)
    assert slopes[1] > 0
    assert not slopes[[0, 2, 3]].any()


@pytest.mark.parametrize(("name", "tolerance"), [("dpe_single_view", 3e-5), ("dpe_many_views", 6e-4)])
def test_dpe_equals_the_released_program(name: str, tolerance: float) -> None:
    data, task, parameters = golden(name)
    del parameters["weight_decay"]  # without effect on a step from zero
    found = final_logits(make_method("dpe", **parameters), task, data["views"])
    assert_equal_logits(found, data["logits"], tolerance)


@settings(max_examples=25, deadline=None)
@given(
    stream=st.fixed_dictionaries(STREAMS),
    options=st.fixed_dictionaries(
        {
            "positive_slots": st.integers(0, 3),
            "align_weight": st.sampled_from([0.0, 0.5]),
            "temperature": st.sampled_from([0.01, 0.5]),
            "lr_text": st.sampled_from([6e-4, 1e-2]),
            "evolve_threshold": st.sampled_from([0.0, 0.1, 0.7]),
            "order": ORDERS,
            "query": QUERIES,
        }
    ),
)
def test_dpe_equals_autograd_along_streams(stream: dict[str, int], options: dict[str, Any]) -> None:
    task, features = gentle_stream(**stream)
    assert_equal_streams(make_method("dpe", text_tolerance=0.0, **options), run_dpe, task, features, **options)


def test_dpe_stays_close_to_itself_within_its_text_tolerance() -> None:
    task, features = gentle_stream(classes=9, dim=12, views=1, images=1500, seed=2)
    exact, lazy = (
        make_method("dpe", text_tolerance=tolerance).start(task).run(features).probabilities
        for tolerance in (0.0, 1e-3)
    )
    assert not np.array_equal(exact, lazy), "the tolerance was never used"
    assert np.quantile(np.abs(exact - lazy).max(axis=1), 0.99) < 1e-4


@settings(max_examples=25, deadline=None)
@given(stream=st.fixed_dictionaries(STREAMS), learning_rate=st.sampled_from([5e-3, 1e-1]))
def test_tps_equals_autograd(stream: dict[str, int], learning_rate: float) -> None:
    task, features = gentle_stream(**stream)
    method = make_method("tps", learning_rate=learning_rate)
    assert_equal_streams(method, run_tps, task, features, learning_rate=learning_rate)


def oracle_options(options: dict[str, Any]) -> dict[str, Any]:
    """The oracle names the losses that are on; the method has weights."""
    named = {key: value for key, value in options.items() if key != "entropy_weight"}
    named["losses"] = [loss for weight, loss in SLOPES.items() if options.get(weight, 1.0)]
    return named


@settings(max_examples=25, deadline=None)
@given(
    stream=st.fixed_dictionaries({**STREAMS, "dim": st.integers(5, 12)}),
    options=st.fixed_dictionaries(
        {
            "entropy_slots": st.integers(0, 4),
            "align_slots": st.integers(0, 4),
            "negative_slots": st.integers(0, 3),
            "entropy_weight": st.sampled_from([0.0, 1.0]),
            "align_weight": st.sampled_from([0.0, 0.5]),
            "contrast_weight": st.sampled_from([0.0, 0.2]),
            "temperature": st.sampled_from([0.01, 1.0]),
            "learning_rate": st.sampled_from([1e-4, 3e-3]),
            "one_sided": st.booleans(),
            "evolve_text": st.booleans(),
            "entropy_high": st.sampled_from([0.5, 0.69]),
            "order": ORDERS,
            "query": QUERIES,
        }
    ),
)
def test_mcp_plus_equals_autograd_along_streams(stream: dict[str, int], options: dict[str, Any]) -> None:
    task, features = gentle_stream(**stream)
    method = make_method("mcp_plus", **PAPER_FORM, positive_alpha=4.0, positive_beta=5.0, **options)
    expected = {"positive_alpha": 4.0, "positive_beta": 5.0, **oracle_options(options)}
    parts = method.start(task).run(features, block=11).parts
    reference = run_mcp_plus(features, task.text_prototypes, task.logit_scale, **expected)
    # A first step divides each gradient by its size, so roundings show, and the more the longer the step is.
    tolerance = 5e-4 if options["learning_rate"] < 1e-3 else 2e-3
    for part, values in parts.items():
        np.testing.assert_allclose(values, reference[part], atol=tolerance, rtol=0, err_msg=part)


@pytest.mark.parametrize("seed", [4])
@pytest.mark.parametrize("options", [{}, {"one_sided": True, "temperature": 0.01}], ids=["paper", "one_sided"])
def test_mcp_plus_does_not_drift_from_autograd_in_1000_images(options: dict[str, Any], seed: int) -> None:
    task, features = gentle_stream(classes=6, dim=10, views=1, images=1000, seed=seed)
    options = {"learning_rate": 1e-3, "positive_alpha": 4.0, "positive_beta": 5.0, **options}
    parts = make_method("mcp_plus", **PAPER_FORM, **options).start(task).run(features).parts
    reference = run_mcp_plus(features, task.text_prototypes, task.logit_scale, **options)
    for part, values in parts.items():
        np.testing.assert_allclose(values, reference[part], atol=1e-4, rtol=0, err_msg=part)
