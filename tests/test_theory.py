"""The paper's propositions: the formulas by hand, and the counts against a plain recount of a run."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError
from trimtab.methods.mcp import MCP
from trimtab.study.theory import bounds, check_theory


def test_bounds_by_hand():
    found = bounds(k_t=16, n_t=64, k_a=16, n_a=32, density_ratio=2.0, dim=2, beta=1.0)
    assert found.entropy_only == pytest.approx((0.5 + 0.5) ** 2)
    # (1/32)^(1/4) + 1/2 sqrt(16/64) + 1/2 sqrt(16/(2*32))
    assert found.with_align == pytest.approx((32**-0.25 + 0.25 + 0.25) ** 2)


@given(st.integers(1, 50), st.integers(1, 50), st.floats(0.01, 1), st.floats(1, 50), st.integers(2, 600))
def test_the_papers_claim_holds_under_its_premise(k_t, k_a, share, density_ratio, dim):
    """With equal retention and c_a >= c_t the second bound is tighter, as Proposition 2 says."""
    found = bounds(k_t=k_t, n_t=k_t / share, k_a=k_a, n_a=k_a / share, density_ratio=density_ratio, dim=dim)
    assert found.ratio < 1 + 1e-12


def test_counts_agree_with_a_recount(tmp_path):
    store = make_store(tmp_path / "s", images=200, views=3)
    method = MCP(entropy_slots=3, align_slots=4)
    found = check_theory(store, method)
    order = order_by_name("shuffled", labels=store.labels, seed=0)
    stream = method.start(store.task())
    stream.run(store.rows(order))
    bank = stream.state.caches.bank
    features = store.rows(order).astype(np.float64)
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    logits = 20 * features @ store.text_prototypes.T.astype(np.float64)
    plain = logits[:, 0].argmax(axis=1)
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    odds /= odds.sum(axis=-1, keepdims=True)
    surest = (-(odds * np.log(odds)).sum(-1)).argmin(axis=1)  # a tenth of three views is one
    votes = odds[np.arange(len(odds)), surest].argmax(axis=1)
    for label, density in enumerate(found.classes):
        assert density.offered == (plain == label).sum()
        assert density.voted == (votes == label).sum()
        kept = bank.features[label, 4:8][bank.sources[label, 4:8] >= 0]
        assert density.stored_align == len(kept)
        items = bank.features[label, 1:8][bank.sources[label, 1:8] >= 0]
        if len(kept):
            center = 0.8 * items.mean(axis=0) + 0.2 * store.text_prototypes[label]
            radius = np.linalg.norm(kept - center, axis=1).max()
            assert density.radius == pytest.approx(radius, rel=1e-4)
            inside = np.linalg.norm(features[votes == label, 0] - center, axis=1) <= radius * (1 + 1e-6)
            assert density.aligned == pytest.approx(inside.sum(), abs=1)
            assert density.inside <= 1


def test_full_caches_of_equal_size_gain_nothing_in_the_second_term(tmp_path):
    """What the caveat says: retention is then exactly the density ratio."""
    found = check_theory(make_store(tmp_path / "s", images=400), MCP(entropy_slots=2, align_slots=2, promotion=False))
    full = [d for d in found.held if d.stored_entropy == d.stored_align == 2 and d.offered == d.voted]
    assert full
    for density in full:
        assert density.retention == pytest.approx(density.density_ratio)


def test_what_cannot_be_evaluated_is_refused(tmp_path):
    store = make_store(tmp_path / "s")
    with pytest.raises(TrimtabError, match="at least one slot"):
        check_theory(store, MCP(align_slots=0))
    with pytest.raises(TrimtabError, match="beta must be a positive number"):
        check_theory(store, beta=0)


def test_the_command_prints_what_is_assumed(tmp_path):
    store = make_store(tmp_path / "s")
    done = CliRunner().invoke(app, ["theory", str(store.path)])
    assert done.exit_code == 0, done.output
    assert "Proposition 2" in done.output
    assert "Assumed or unknown" in done.output
