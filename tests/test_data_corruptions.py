"""Corruptions: stronger is worse, and the same image is always corrupted in the same way."""

import pickle

import numpy as np
import pytest

from trimtab.data.base import GrayImages, ImageSet, joined
from trimtab.data.catalog import load_dataset
from trimtab.data.corruptions import STRENGTHS, corrupted
from trimtab.data.orders import order_by_name
from trimtab.errors import TrimtabError


def images_of(side: int) -> ImageSet:
    """Like photographs, with less and less power in finer and finer detail."""
    rng = np.random.default_rng(0)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side)[None, :])
    spectrum = np.fft.fft2(rng.normal(size=(3, side, side))) / np.maximum(frequency, 1 / side)
    waves = np.fft.ifft2(spectrum).real
    pixels = np.clip(128 + 60 * waves / waves.std(), 0, 255).astype(np.uint8)
    return ImageSet("clouds", ("a", "b"), np.array([0, 1, 0]), ["x", "y", "z"], GrayImages(pixels))


@pytest.mark.parametrize("kind", STRENGTHS)
@pytest.mark.parametrize("side", [32, 224])
def test_stronger_is_worse_for_small_and_large_images(kind, side):
    clean = images_of(side)
    original = clean.load(1).astype(float)
    errors = []
    for strength in range(1, 6):
        image = corrupted(clean, kind, strength).load(1)
        assert image.shape == original.shape
        assert image.dtype == np.uint8
        errors.append(np.abs(image - original).mean())
    assert errors == sorted(errors)
    assert errors[0] > 0.3
    assert errors[-1] > 1.2 * errors[0]


def test_noise_has_the_deviation_of_the_benchmark():
    flat = ImageSet("flat", ("a",), np.array([0]), ["x"], GrayImages(np.full((1, 64, 64), 128, np.uint8)))
    for strength, deviation in enumerate((0.04, 0.06, 0.08, 0.09, 0.10), 1):
        assert corrupted(flat, "noise", strength).load(0).std() == pytest.approx(255 * deviation, rel=0.03)


def test_the_same_image_is_always_corrupted_in_the_same_way():
    clean = images_of(32)
    noisy = corrupted(clean, "noise", 3, seed=7)
    first = [noisy.load(index) for index in range(3)]
    for index in (2, 0, 1):
        np.testing.assert_array_equal(noisy.load(index), first[index])
    again = pickle.loads(pickle.dumps(noisy.load))
    np.testing.assert_array_equal(again(2), first[2])
    assert not np.array_equal(corrupted(clean, "noise", 3, seed=8).load(0), first[0])
    noise = [first[index].astype(int) - clean.load(index) for index in (0, 1)]
    assert not np.array_equal(*noise)
    assert clean.load(0).std() > 0


def test_a_corrupted_set_keeps_the_rest():
    clean = images_of(32)
    blurred = corrupted(clean, "blur", 2)
    assert blurred.name == "clouds+blur:2"
    assert blurred.labels is clean.labels
    assert blurred.class_names == clean.class_names


@pytest.mark.fetches("groceries")
def test_corruptions_by_name():
    noisy = load_dataset("groceries-coarse+contrast:5")
    assert noisy.name == "groceries-coarse+contrast:5"
    assert noisy.load(3)[..., 0].std() < 0.1 * noisy.load.load(3)[..., 0].std()
    for wrong, said in (("cifar10+noise", "kind:strength"), ("groceries+fog:1", "no corruption 'fog'")):
        with pytest.raises(TrimtabError, match=said):
            load_dataset(wrong)
    with pytest.raises(TrimtabError, match="strength of jpeg must be a whole number from 1 to 5, not 6"):
        corrupted(images_of(32), "jpeg", 6)


def test_corruptions_joined_into_one_stream_of_domains():
    clean = images_of(32)
    parts = [clean, corrupted(clean, "blur", 5), corrupted(clean, "noise", 1)]
    stream = joined(parts)
    assert len(stream) == 9
    assert stream.labels.tolist() == [0, 1, 0] * 3
    assert stream.domains[3:7] == ["clouds+blur:5"] * 3 + ["clouds+noise:1"]
    assert stream.ids[3] == "clouds+blur:5/x"
    for index in range(9):
        np.testing.assert_array_equal(stream.load(index), parts[index // 3].load(index % 3))
    order = order_by_name("domain-sequence:clouds+noise:1,clouds", labels=stream.labels, domains=stream.domains)
    assert sorted(order[:3]) == [6, 7, 8]
    assert sorted(order[3:]) == [0, 1, 2]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(stream.load))(8), stream.load(8))
    with pytest.raises(TrimtabError, match="have the same name"):
        joined([clean, clean])
    with pytest.raises(TrimtabError, match="different classes"):
        joined([clean, ImageSet("other", ("x",), np.array([0]), ["i"], clean.load)])
    with pytest.raises(TrimtabError, match="no sets"):
        joined([])
