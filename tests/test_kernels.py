"""Each compiled loop against a plain NumPy twin."""

import numba
import numpy as np
import pytest

from trimtab.engine import kernels
from trimtab.engine.block import scaled_softmax
from trimtab.engine.products import slot_products

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
    return items, images, occupied, products, gram


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
    items, images, occupied, products, _ = stored
    out = table()
    present = np.zeros(CLASSES, np.bool_)
    kernels.mean_products(products, occupied, 1, 6, 0, CLASSES, first_image, IMAGES, out, present)
    assert (present == (occupied[:, 1:6].sum(axis=1) > 0)).all()
    counts = occupied[:, 1:6].sum(axis=1, keepdims=True)
    expected = (items[:, 1:6].sum(axis=1) / np.maximum(counts, 1)) @ images.T
    np.testing.assert_allclose(out[:, first_image:], expected[:, first_image:], atol=1e-6)
    assert np.isnan(out[:, :first_image]).all()


@pytest.mark.parametrize("first_image", [0, 4, IMAGES - 1])
def test_affinity_sums(stored, first_image):
    _, _, occupied, products, _ = stored
    out = table()
    kernels.affinity_sums(products, occupied, 1, 6, np.float32(3), np.float32(8), 0, CLASSES, first_image, IMAGES, out)
    weights = 3 * np.exp(-8 * (1 - products[:, 1:6])) * occupied[:, 1:6, None]
    np.testing.assert_allclose(out[:, first_image:], weights.sum(axis=1)[:, first_image:], rtol=1e-5)


@pytest.mark.parametrize("first_image", [0, IMAGES - 1])
@pytest.mark.parametrize("beta", [0.0, 5.5, 300.0])
def test_retrieval_cosines(stored, beta, first_image):
    items, images, occupied, products, gram = stored
    out = table()
    kernels.retrieval_cosines(products, occupied, gram, 6, np.float32(beta), 0, CLASSES, first_image, IMAGES, out)
    assert np.isnan(out[:, :first_image]).all()
    for c in range(CLASSES):
        for j in range(first_image, IMAGES):
            held = items[c, :6][occupied[c, :6] > 0].astype(np.float64)
            similar = held @ images[j]
            retrieved = np.exp(beta * (similar - similar.max())) @ held
            expected = images[j] @ retrieved / np.linalg.norm(retrieved)
            assert out[c, j] == pytest.approx(expected, abs=1e-5)


def test_only_the_named_class_is_written(stored):
    _, _, occupied, products, gram = stored
    out = table()
    kernels.retrieval_cosines(products, occupied, gram, 6, np.float32(5.5), 2, 3, 4, IMAGES, out)
    written = ~np.isnan(out)
    assert written[2, 4:].all()
    assert written.sum() == IMAGES - 4


def test_penalties_are_added_and_taken_back(stored):
    _, _, occupied, products, _ = stored
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
    kernels.add_penalties(products, occupied, 5, np.float32(0.5), np.float32(2), *arguments)
    np.testing.assert_allclose(out, expected, atol=1e-6)
    kernels.add_penalties(products, occupied, 5, np.float32(-0.5), np.float32(2), *arguments)
    np.testing.assert_allclose(out, 0, atol=1e-6)


@pytest.mark.parametrize("classes", [1, 4, 7])
def test_products_of_one_image_with_every_slot(classes):
    """Full, half empty and empty classes, in pairs and alone; what an empty slot holds does not count."""
    random = np.random.default_rng(classes)
    items, image = random.normal(size=(classes, SLOTS, 33)).astype(np.float32), random.normal(size=33)
    image = image.astype(np.float32)
    occupied = np.ones((classes, SLOTS), np.float32)
    occupied[: classes // 2, 2] = 0
    occupied[-1, 3:] = 0
    out = np.full((classes, SLOTS, 1), np.nan, np.float32)
    slot_products(items, occupied, image, out)
    np.testing.assert_allclose(out[:, :, 0], occupied * (items @ image), rtol=1e-5, atol=1e-5)
