"""Orders of a stream: each keeps its promise, for any labels and any seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.data import orders
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError

labels_of = st.lists(st.integers(0, 6), min_size=1, max_size=120).map(np.array)
seeds = st.integers(0, 2**32 - 1)


def runs(sequence: np.ndarray) -> int:
    """How often the value changes along the sequence, plus one."""
    return 1 + int((np.diff(sequence) != 0).sum())


@settings(deadline=None)
@given(labels_of, seeds, st.sampled_from(["stored", "shuffled", "class-sorted", "dirichlet:0.1", "few-classes:2"]))
def test_whole_set_orders_are_permutations_and_repeat(labels, seed, name):
    order = order_by_name(name, labels=labels, seed=seed)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(len(labels)))
    np.testing.assert_array_equal(order, order_by_name(name, labels=labels, seed=seed))


@settings(deadline=None)
@given(labels_of, seeds, st.floats(1, 500))
def test_long_tail_is_a_part_with_every_class(labels, seed, imbalance):
    order = orders.long_tailed(labels, imbalance, seed=seed)
    assert len(set(order.tolist())) == len(order)
    assert set(labels[order]) == set(labels)
    np.testing.assert_array_equal(order, orders.long_tailed(labels, imbalance, seed=seed))


def test_long_tail_has_the_ratio_asked_for():
    labels = np.repeat(np.arange(10), 1000)
    counts = np.sort(np.bincount(labels[orders.long_tailed(labels, 100, seed=1)]))
    assert counts[-1] == 1000
    assert counts[0] == 10
    steps = counts[1:] / counts[:-1]
    np.testing.assert_allclose(steps, 100 ** (1 / 9), rtol=0.06)


def test_long_tail_draws_the_common_class_by_seed():
    labels = np.repeat(np.arange(10), 100)
    heads = {int(np.bincount(labels[orders.long_tailed(labels, 50, seed=s)]).argmax()) for s in range(8)}
    assert len(heads) > 2


@settings(deadline=None)
@given(labels_of, seeds)
def test_class_sorted_meets_each_class_once(labels, seed):
    for order in (orders.class_sorted(labels), orders.class_sorted(labels, seed=seed)):
        assert runs(labels[order]) == len(set(labels.tolist()))


def test_class_sorted_without_seed_keeps_the_stored_order_within_a_class():
    np.testing.assert_array_equal(orders.class_sorted([1, 0, 1, 0]), [1, 3, 0, 2])


def test_seeds_change_every_random_order():
    labels = np.repeat(np.arange(5), 40)
    for name in ("shuffled", "class-sorted", "dirichlet:1", "few-classes:2", "long-tailed:5"):
        one, two = (order_by_name(name, labels=labels, seed=s) for s in (1, 2))
        assert not np.array_equal(one, two), name


def test_smaller_alpha_means_longer_runs():
    labels = np.random.default_rng(0).integers(0, 20, 4000)
    mean_run = [len(labels) / runs(labels[orders.dirichlet(labels, alpha, seed=3)]) for alpha in (0.01, 0.1, 1, 100)]
    assert mean_run == sorted(mean_run, reverse=True)
    assert mean_run[0] > 100  # nearly one class after another
    assert mean_run[-1] < 15  # 4000 images / (20 classes x 20 slots) = 10 in the even limit


def test_one_dirichlet_slot_is_class_sorted():
    labels = np.repeat(np.arange(6), 10)
    assert runs(labels[orders.dirichlet(labels, 0.5, seed=0, slots=1)]) == 6


@settings(deadline=None)
@given(labels_of, seeds, st.integers(1, 8))
def test_few_classes_at_a_time(labels, seed, at_a_time):
    order = orders.few_classes(labels, at_a_time, seed=seed)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(labels)))
    seen = labels[order]
    first = {c: int(np.flatnonzero(seen == c)[0]) for c in set(labels.tolist())}
    last = {c: int(np.flatnonzero(seen == c)[-1]) for c in set(labels.tolist())}
    for position in range(len(seen)):
        open_classes = [c for c in first if first[c] <= position <= last[c]]
        assert len(open_classes) <= at_a_time


def test_domain_sequence_and_mixture():
    domains = ["photo"] * 30 + ["sketch"] * 30 + ["photo"] * 10
    names = np.array(domains)
    sequence = orders.domain_sequence(domains, seed=0)
    assert names[sequence].tolist() == ["photo"] * 40 + ["sketch"] * 30
    assert not np.array_equal(np.sort(sequence[:40]), sequence[:40])
    backwards = orders.domain_sequence(domains, seed=0, which=["sketch", "photo"])
    assert names[backwards[:30]].tolist() == ["sketch"] * 30
    mixture = orders.domain_mixture(domains, seed=0)
    assert runs((names[mixture] == "photo").astype(int)) > 10
    only = order_by_name("domain-mixture:sketch", labels=np.zeros(70), domains=domains)
    assert set(names[only]) == {"sketch"}
    assert len(only) == 30


@settings(deadline=None)
@given(st.integers(4, 12), seeds, st.floats(0.2, 0.5))
def test_held_out_classes(classes, seed, share):
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(classes), 7))
    stream = orders.held_out_classes(labels, share, seed=seed)
    np.testing.assert_array_equal(np.sort(stream.indices), np.arange(len(labels)))
    assert len(stream.known_classes) == classes - round(share * classes)
    assert set(labels[stream.indices[~stream.unknown]]) == set(stream.known_classes)
    assert not set(labels[stream.indices[stream.unknown]]) & set(stream.known_classes)
    renumbered = stream.task_labels(labels)
    assert (renumbered[stream.unknown] == -1).all()
    np.testing.assert_array_equal(
        stream.known_classes[renumbered[~stream.unknown]], labels[stream.indices[~stream.unknown]]
    )


@settings(deadline=None)
@given(st.integers(20, 200), st.integers(20, 200), st.floats(0.1, 0.9), seeds)
def test_mixing_in_another_set_keeps_the_share(known, unknown, share, seed):
    labels = np.arange(known) % 5
    stream = orders.mixed_with_unknown(labels, unknown, share, seed=seed)
    assert len(set(stream.indices.tolist())) == len(stream.indices)
    assert stream.indices.max() < known + unknown
    np.testing.assert_array_equal(stream.unknown, stream.indices >= known)
    assert stream.unknown.mean() == pytest.approx(share, abs=0.08)
    odds = share / (1 - share)  # keeping one known image fewer or more moves this many unknown ones
    assert (~stream.unknown).sum() == known or stream.unknown.sum() >= unknown - odds / 2 - 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dirichlet:0", "alpha of a Dirichlet order must be a positive number, not 0"),
        ("dirichlet:abc", "number after the colon"),
        ("dirichlet", "number after the colon"),
        ("few-classes:1.5", "whole number"),
        ("few-classes:0", "at least 1"),
        ("long-tailed:0.5", "at least 1"),
        ("shuffled:3", "takes nothing"),
        ("domain-sequence", "domains"),
        ("nonsense", "choose one of"),
    ],
)
def test_wrong_names_say_what_is_wrong(name, said):
    with pytest.raises(TrimtabError, match=said):
        order_by_name(name, labels=[0, 1, 2, 0])


def test_orders_by_label_refuse_unlabeled_images():
    with pytest.raises(TrimtabError, match="1 of 3 have none"):
        order_by_name("class-sorted", labels=[0, -1, 1])
    with pytest.raises(TrimtabError, match="leaves at least two"):
        orders.held_out_classes([0, 1, 2], 0.9, seed=0)
    with pytest.raises(TrimtabError, match="There is no domain"):
        orders.domain_sequence(["a"], seed=0, which=["b"])
