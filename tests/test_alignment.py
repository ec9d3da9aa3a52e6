"""The incrementally kept InfoNCE gradient against autograd, after many writes."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from trimtab.engine.alignment import Alignment


def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def autograd(
    text: NDArray[np.float64], visual: NDArray[np.float64], here: NDArray[np.intp], temperature: float, one_sided: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    t = torch.tensor(text, requires_grad=True)
    v = torch.tensor(visual, requires_grad=True)
    matches = v[here] @ t[here].T / temperature
    loss = torch.nn.functional.cross_entropy(matches, torch.arange(len(here)))
    if not one_sided:
        loss = loss + torch.nn.functional.cross_entropy(matches.T, torch.arange(len(here)))
    loss.backward()
    return t.grad.numpy(), v.grad.numpy()


def total(terms: list[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> NDArray[np.float64]:
    return sum(scale[:, None] * vectors for scale, vectors in terms)


def write_many(
    alignment: Alignment, classes: int, dim: int, writes: int, seed: int, dtype: type
) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    visual = np.zeros((classes, dim))
    for _ in range(writes):
        label = int(random.integers(classes - 1))  # the last class never appears
        visual[label] = unit(random.normal(size=dim))
        alignment.write(label, visual[label].astype(dtype))
    return visual


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.01])
def test_exact_in_float64(temperature: float, one_sided: bool) -> None:
    classes, dim = 9, 16
    text = unit(np.random.default_rng(1).normal(size=(classes, dim)))
    alignment = Alignment(text, temperature, one_sided=one_sided, tolerance=0.0, dtype=np.float64)
    visual = write_many(alignment, classes, dim, 120, seed=2, dtype=np.float64)
    expected = autograd(text, visual, np.flatnonzero(alignment.present), temperature, one_sided)
    for found, exact in zip((alignment.text_terms(1.0), alignment.visual_terms(1.0)), expected, strict=True):
        np.testing.assert_allclose(total(found), exact, atol=1e-8)


@pytest.mark.parametrize("one_sided", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_no_drift_in_float32(temperature: float, one_sided: bool) -> None:
    """1,900 writes without one full computation, which comes at 2,000: the lazy share stays within its tolerance."""
    classes, dim = 9, 16
    text = unit(np.random.default_rng(1).normal(size=(classes, dim)))
    alignment = Alignment(text, temperature, one_sided=one_sided)
    visual = write_many(alignment, classes, dim, 1900, seed=3, dtype=np.float32)
    expected = autograd(text, visual, np.flatnonzero(alignment.present), temperature, one_sided)
    for found, exact in zip((alignment.text_terms(1.0), alignment.visual_terms(1.0)), expected, strict=True):
        np.testing.assert_allclose(total(found), exact, atol=2e-3 * np.abs(exact).max())


def test_a_text_may_move() -> None:
    classes, dim = 7, 12
    random = np.random.default_rng(4)
    alignment = Alignment(unit(random.normal(size=(classes, dim))), 0.05, one_sided=True, dtype=np.float64)
    visual = write_many(alignment, classes, dim, 40, seed=5, dtype=np.float64)
    moved = unit(random.normal(size=(classes, dim)))
    alignment.move_text(moved)
    expected = autograd(moved, visual, np.flatnonzero(alignment.present), 0.05, one_sided=True)
    np.testing.assert_allclose(total(alignment.text_terms(1.0)), expected[0], atol=1e-8)
    np.testing.assert_allclose(total(alignment.visual_terms(1.0)), expected[1], atol=1e-8)


def test_nothing_present_pulls_nowhere() -> None:
    alignment = Alignment(unit(np.random.default_rng(0).normal(size=(3, 4))), 1.0, one_sided=False)
    assert not total(alignment.text_terms(1.0)).any()
    assert not total(alignment.visual_terms(1.0)).any()


def test_looking_at_sums_that_wait_changes_nothing_and_tells_what_settling_gives() -> None:
    classes, dim = 6, 8
    random = np.random.default_rng(6)
    alignment = Alignment(unit(random.normal(size=(classes, dim))), 0.1, one_sided=False)
    write_many(alignment, classes, dim, 20, seed=7, dtype=np.float32)
    alignment.move_text(unit(random.normal(size=(classes, dim))).astype(np.float32))
    before = {name: array.copy() for name, array in alignment.arrays().items()}
    looked = total(alignment.text_terms(1.0)), total(alignment.visual_terms(1.0))
    for name, array in alignment.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    alignment.settle()
    np.testing.assert_array_equal(total(alignment.text_terms(1.0)), looked[0])
    np.testing.assert_array_equal(total(alignment.visual_terms(1.0)), looked[1])
    alignment.write(0, unit(random.normal(size=dim)).astype(np.float32))
    assert not np.array_equal(total(alignment.text_terms(1.0)), looked[0])
