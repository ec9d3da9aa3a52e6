"""Each compiled loop against a plain NumPy twin."""

import os
import threading

import numba
import numpy as np
import pytest

from trimtab.engine import kernels, lanes, products
from trimtab.engine.under_text import scaled_softmax

CLASSES, SLOTS, IMAGES, DIM = 5, 7, 9, 6


@pytest.fixture(params=[0, 1])
def stored(request):
    """Random unit items, some slots empty, and their products with unit images."""
    random = np.random.default_rng(request.param)
    unit = lambda x: (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)  # noqa: E731
    items, images = unit(random.normal(size=(CLASSES, SLOTS, DIM))), unit(random.normal(size=(IMAGES, DIM)))
    occupied = (random.random((CLASSES, SLOTS)) < 0.6).astype(np.float32)
    occupied[:, 0] = 1
    occupied[1, 1:] = 0
    items *= occupied[:, :, None]
    products = np.einsum("ckd,bd->ckb", items, images)
    gram = np.einsum("ckd,cld->ckl", items, items)
    # Where the products of a slot lie is any order: here, the last slot's come first.
    at = np.arange(CLASSES * SLOTS, dtype=np.int32)[::-1].reshape(CLASSES, SLOTS).copy()
    return items, images, occupied, (products.reshape(-1, IMAGES)[::-1].copy(), at), products, gram


def table():
    return np.full((CLASSES, IMAGES), np.nan, np.float32)


def test_logarithms_and_exponentials():
    @numba.njit
    def both(values, logarithms, back):
        for i in range(len(values)):
            logarithms[i] = kernels.log(values[i])
            back[i] = kernels.exp(logarithms[i])

    values = np.exp(np.linspace(-69, 60, 5001)).astype(np.float32)
    values[:1000] = np.linspace(0.3, 3, 1000)
    logarithms, back = np.empty_like(values), np.empty_like(values)
    both(values, logarithms, back)
    np.testing.assert_allclose(logarithms, np.log(values.astype(np.float64)), rtol=3e-7, atol=1e-7)
    np.testing.assert_allclose(back, np.exp(logarithms.astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize("count", [1, 7, 8, 21, 256, 257, 1000])
def test_the_highest_and_where_it_stands(count):
    for seed in range(20):
        values = np.random.default_rng(seed).integers(-5, 5, count).astype(np.float32)
        assert kernels.highest_of(values) == values.max()
        assert kernels.best_of(values) == values.argmax()
        assert kernels.best_of(np.copysign(np.float32(0), values)) == 0  # 0 and -0 are equal


def test_row_entropies():
    logits = np.random.default_rng(0).normal(scale=20, size=(40, 11)).astype(np.float32)
    logits[0] = 0  # uniform: the highest entropy there is
    logits[1, 3] = 500  # certain
    exact = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    probabilities = np.exp(exact) / np.exp(exact).sum(axis=1, keepdims=True)
    expected = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1)
    out = np.empty(40, np.float32)
    kernels.row_entropies(logits, out)
    assert (expected < 1e-5).sum() > 5  # rows so sure that 1 - p is lost in float32; their order must not be
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-15)


@pytest.mark.parametrize("views", [1, 3])
def test_scaled_softmax(views):
    random = np.random.default_rng(1)
    cosines = random.uniform(-1, 1, (20, views, 11)).astype(np.float32)
    scales = random.uniform(1, 30, 20).astype(np.float32)
    every = cosines * scales[:, None, None]
    logits = every[:, 0].copy()
    exact = every[:, 0].astype(np.float64)
    probabilities = np.exp(exact - exact.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    out, entropies, best = np.empty_like(logits), np.empty(20, np.float32), np.empty(20, np.intp)
    scaled_softmax(cosines, scales, out, entropies, best)
    np.testing.assert_array_equal(cosines, every)
    np.testing.assert_allclose(out, probabilities, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(entropies, -(probabilities * np.log(probabilities)).sum(axis=1), rtol=1e-5)
    assert (best == logits.argmax(axis=1)).all()
    assert kernels.softmax_in_place(logits[0]) == pytest.approx(entropies[0], rel=1e-6)  # in place
    np.testing.assert_allclose(logits[0], out[0], rtol=1e-6)


@pytest.mark.parametrize("first_image", [0, 4, IMAGES - 1])
def test_mean_products(stored, first_image):
    items, images, occupied, lying, _, _ = stored
    out = table()
    present = np.zeros(CLASSES, np.bool_)
    lanes.mean_products(*lying, occupied, 1, 6, 0, CLASSES, first_image, IMAGES, out, present)
    assert (present == (occupied[:, 1:6].sum(axis=1) > 0)).all()
    counts = occupied[:, 1:6].sum(axis=1, keepdims=True)
    expected = (items[:, 1:6].sum(axis=1) / np.maximum(counts, 1)) @ images.T
    np.testing.assert_allclose(out[:, first_image:], expected[:, first_image:], atol=1e-6)
    assert np.isnan(out[:, :first_image]).all()


@pytest.mark.parametrize("first_image", [0, 4, IMAGES - 1])
def test_affinity_sums(stored, first_image):
    _, _, occupied, lying, products, _ = stored
    out = table()
    lanes.affinity_sums(*lying, occupied, 1, 6, np.float32(3), np.float32(8), 0, CLASSES, first_image, IMAGES, out)
    weights = 3 * np.exp(-8 * (1 - products[:, 1:6])) * occupied[:, 1:6, None]
    np.testing.assert_allclose(out[:, first_image:], weights.sum(axis=1)[:, first_image:], rtol=1e-5)


@pytest.mark.parametrize("first_image", [0, IMAGES - 1])
@pytest.mark.parametrize("beta", [0.0, 5.5, 300.0])
def test_retrieval_cosines(stored, beta, first_image):
    items, images, occupied, lying, _, gram = stored
    out = table()
    lanes.retrieval_cosines(*lying, occupied, gram, 6, np.float32(beta), 0, CLASSES, first_image, IMAGES, out)
    assert np.isnan(out[:, :first_image]).all()
    for c in range(CLASSES):
        for j in range(first_image, IMAGES):
            held = items[c, :6][occupied[c, :6] > 0].astype(np.float64)
            similar = held @ images[j]
            retrieved = np.exp(beta * (similar - similar.max())) @ held
            expected = images[j] @ retrieved / np.linalg.norm(retrieved)
            assert out[c, j] == pytest.approx(expected, abs=1e-5)


def test_only_the_named_class_is_written(stored):
    _, _, occupied, lying, _, gram = stored
    out = table()
    lanes.retrieval_cosines(*lying, occupied, gram, 6, np.float32(5.5), 2, 3, 4, IMAGES, out)
    written = ~np.isnan(out)
    assert written[2, 4:].all()
    assert written.sum() == IMAGES - 4


def test_penalties_are_added_and_taken_back(stored):
    _, _, occupied, lying, products, _ = stored
    random = np.random.default_rng(3)
    counts = random.integers(0, 4, size=(CLASSES, 2)).astype(np.int32)
    marked = np.stack([random.permutation(CLASSES)[:4] for _ in range(CLASSES * 2)]).reshape(CLASSES, 2, 4)
    expected = np.zeros((CLASSES, IMAGES))
    for c in range(CLASSES):
        for item in range(2):
            strength = 0.5 * np.exp(-2 * (1 - products[c, 5 + item])) * occupied[c, 5 + item]
            for target in marked[c, item, : counts[c, item]]:
                expected[target] += strength
    out = np.zeros((CLASSES, IMAGES), np.float32)
    arguments = (marked.astype(np.int32), counts, 0, CLASSES, 0, 2, 0, IMAGES, out)
    lanes.add_penalties(*lying, occupied, 5, np.float32(0.5), np.float32(2), *arguments)
    np.testing.assert_allclose(out, expected, atol=1e-6)
    lanes.add_penalties(*lying, occupied, 5, np.float32(-0.5), np.float32(2), *arguments)
    np.testing.assert_allclose(out, 0, atol=1e-6)


def test_one_image_reads_out_what_it_does_in_a_block():
    """A block of one image has loops of its own, over some classes at a time."""
    random, classes = np.random.default_rng(5), 70
    items = random.normal(size=(classes, SLOTS, DIM)) / 2
    occupied = (random.random((classes, SLOTS)) < 0.7).astype(np.float32)
    occupied[:, 0] = 1
    items *= occupied[:, :, None]
    images = random.normal(size=(IMAGES, DIM)) / 4
    products = np.einsum("ckd,bd->ckb", items, images).astype(np.float32).reshape(-1, IMAGES)
    gram = np.einsum("ckd,cld->ckl", items, items).astype(np.float32)
    marked = random.integers(0, classes, (classes, 2, 4)).astype(np.int32)
    counts = random.integers(0, 5, (classes, 2)).astype(np.int32)

    at = np.arange(classes * SLOTS, dtype=np.int32).reshape(classes, SLOTS)

    def read_out(some, first, last):
        images = some.shape[1]
        mean, affinity, retrieved = np.full((3, classes, images), np.nan, np.float32)
        against, present, span = np.zeros((classes, images), np.float32), np.zeros(classes, np.bool_), (first, last)
        lanes.mean_products(some, at, occupied, 1, 5, *span, 0, images, mean, present)
        lanes.affinity_sums(some, at, occupied, 1, 4, np.float32(3), np.float32(8), *span, 0, images, affinity)
        lanes.retrieval_cosines(some, at, occupied, gram, 5, np.float32(5.5), *span, 0, images, retrieved)
        weights = np.float32(0.5), np.float32(2), marked, counts
        lanes.add_penalties(some, at, occupied, 5, *weights, *span, 0, 2, 0, images, against)
        return [mean, affinity, retrieved, against, present[:, None].repeat(images, axis=1)]

    for first, last in ((0, classes), (33, 34), (3, 68)):
        block = read_out(products, first, last)
        for image in (0, IMAGES - 1):
            alone = read_out(np.ascontiguousarray(products[:, image : image + 1]), first, last)
            for found, expected in zip(alone, block, strict=True):
                np.testing.assert_allclose(found[:, 0], expected[:, image], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 7, 100, 101])
def test_products_of_one_image_with_all_rows(count, monkeypatch):
    """By one thread or by two, in pairs and the last alone: the same bits."""
    random = np.random.default_rng(count)
    rows, image = random.normal(size=(count, 33)).astype(np.float32), random.normal(size=33).astype(np.float32)
    out = np.full((2, count), np.nan, np.float32)
    products.pair_products(rows, image, out[0], 0, count)
    np.testing.assert_allclose(out[0], rows @ image, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(products, "STRETCH", 10 * 33)
    for _ in range(20):
        out[1] = np.nan
        products.shared_pair_products(rows, image, out[1])
        assert np.array_equal(out[0], out[1])


def test_a_second_thread_that_has_no_time_keeps_nobody_waiting(monkeypatch):
    asked = threading.Event()
    products._helper().submit(asked.wait)  # it is busy with something else
    rows, out = np.ones((50, 8), np.float32), np.zeros(50, np.float32)
    monkeypatch.setattr(products, "STRETCH", 32)
    products.shared_pair_products(rows, rows[0], out)
    asked.set()
    assert (out == 8).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_a_forked_process_has_a_second_thread_of_its_own(monkeypatch):
    """One that waited for its parent's would only pile up what it asks of it."""
    rows, out = np.ones((50, 8), np.float32), np.zeros(50, np.float32)
    products.shared_pair_products(rows, rows[0], out)
    child = os.fork()
    if child == 0:
        answered = products._helper().submit(lambda: 3).result(timeout=20)
        os._exit(answered)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_a_second_thread_helps_only_where_it_may(monkeypatch):
    many, few = np.broadcast_to(np.float32(0), (products.MANY, 1)), np.zeros((4, 4), np.float32)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    for limit, helps in ((None, True), ("2", True), ("1", False)):
        monkeypatch.setenv("OMP_NUM_THREADS", limit or "")
        products._has_help.cache_clear()
        assert products.worth_sharing(many) == helps
        assert not products.worth_sharing(few)
    products._has_help.cache_clear()
