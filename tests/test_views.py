"""Views: torchvision's rule, the same pixels whatever the batch or the number of workers, bounded look-ahead."""

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import stats

from trimtab.errors import TrimtabError
from trimtab.images import augmix
from trimtab.images.loader import ViewLoader
from trimtab.images.views import content_number, make_views, random_crop, resize_shorter_and_crop


def photo(height=50, width=70, seed=0):
    rough = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8))
    return np.asarray(rough.resize((width, height), Image.Resampling.BICUBIC))


def test_first_view_is_the_plain_one_and_more_views_change_no_earlier_one():
    image = photo()
    few, many = (make_views(image, 32, views, seed=3) for views in (4, 9))
    assert few.shape == (4, 32, 32, 3)
    assert np.array_equal(many[0], resize_shorter_and_crop(image, 32))
    assert np.array_equal(many[:4], few)
    assert np.array_equal(make_views(image, 32, 9, seed=3, first=4), many[4:])


def test_views_differ_by_seed_by_image_and_from_each_other():
    image = photo()
    base = make_views(image, 32, 3, seed=1)
    assert np.array_equal(base, make_views(image.copy(), 32, 3, seed=1))
    other = make_views(image, 32, 3, seed=2)
    assert not np.array_equal(base[1], other[1])
    assert np.array_equal(base[0], other[0])
    assert not np.array_equal(base[1], base[2])


def test_other_pixels_are_cropped_elsewhere():
    image = photo()
    touched = image.copy()
    touched[0, 0, 0] ^= 1
    both = [make_views(pixels, 32, 4, seed=1)[1:].astype(int) for pixels in (image, touched)]
    assert np.abs(both[0] - both[1]).max() > 1


def test_random_views_are_pillows_crop_and_bilinear_resize():
    image = photo()
    mirrored = 0
    views = make_views(image, 40, 12, seed=0)
    for number in range(1, 12):
        rng = np.random.default_rng([0, content_number(image), number])
        box = random_crop(rng, *image.shape[:2], (0.08, 1.0))
        cut = Image.fromarray(image).crop((box.left, box.top, box.left + box.width, box.top + box.height))
        # One way at a time: since version 13 Pillow may otherwise do the columns first.
        narrow = cut.resize((40, box.height), Image.Resampling.BILINEAR)
        expected = np.asarray(narrow.resize((40, 40), Image.Resampling.BILINEAR))
        if rng.random() < 0.5:
            expected, mirrored = expected[:, ::-1], mirrored + 1
        assert np.array_equal(views[number], expected)
    assert 0 < mirrored < 11


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_crops_lie_inside(height, width, seed):
    box = random_crop(np.random.default_rng(seed), height, width, (0.08, 1.0))
    assert 0 <= box.top <= box.top + box.height <= height
    assert 0 <= box.left <= box.left + box.width <= width
    assert box.height > 0
    assert box.width > 0


def test_crop_sizes_follow_the_published_distribution():
    rng = np.random.default_rng(0)
    boxes = [random_crop(rng, 1000, 1000, (0.2, 0.5)) for _ in range(3000)]
    areas = np.array([box.height * box.width for box in boxes]) / 1e6
    ratios = np.log([box.width / box.height for box in boxes]) / np.log(4 / 3)
    # Areas up to one half always fit, so nothing is rejected and both laws are exact.
    assert stats.kstest(areas, stats.uniform(0.2, 0.3).cdf).pvalue > 0.01
    assert stats.kstest(ratios, stats.uniform(-1, 2).cdf).pvalue > 0.01
    places = np.array([box.top / (1000 - box.height) for box in boxes])
    assert stats.kstest(places, stats.uniform(0, 1).cdf).pvalue > 0.01


def test_too_elongated_images_fall_back_to_the_center():
    for seed in range(20):
        box = random_crop(np.random.default_rng(seed), 10, 1000, (0.5, 1.0))
        assert tuple(box) == (0, (1000 - 13) // 2, 10, 13)
        box = random_crop(np.random.default_rng(seed), 900, 9, (0.5, 1.0))
        assert tuple(box) == ((900 - 12) // 2, 0, 12, 9)


@pytest.mark.parametrize(
    "options", [{"views": 0}, {"seed": -1}, {"seed": 2**32}, {"scale": (0, 1)}, {"scale": (0.5, 2)}]
)
def test_impossible_options_are_refused(options):
    with pytest.raises(TrimtabError, match=f"{next(iter(options))} must be"):
        make_views(photo(), 16, **{"views": 2, "seed": 0, **options})


def test_augmix_changes_random_views_only_and_repeatably():
    plain = make_views(photo(), 32, 6, seed=0)
    mixed = make_views(photo(), 32, 6, seed=0, augmix=True)
    assert np.array_equal(plain[0], mixed[0])
    assert all(not np.array_equal(a, b) for a, b in zip(plain[1:], mixed[1:], strict=True))
    assert np.array_equal(mixed, make_views(photo(), 32, 6, seed=0, augmix=True))


def test_augmix_weights_sum_to_one(monkeypatch):
    monkeypatch.setattr(augmix, "OPERATIONS", (lambda image, _: image,))
    view = photo(32, 32)
    for seed in range(10):
        assert np.array_equal(augmix.augmix(view, np.random.default_rng(seed)), view)


def test_augmix_operations_stay_within_severity_one():
    dot = np.zeros((61, 61, 3), dtype=np.uint8)
    dot[28:33, 28:33] = 200
    operations = {operation.__name__.strip("_"): operation for operation in augmix.OPERATIONS}
    assert len(operations) == 9
    for seed in range(30):
        for name in ("translate_x", "translate_y", "rotate", "shear_x", "shear_y"):
            moved = np.asarray(operations[name](Image.fromarray(dot), np.random.default_rng(seed)))
            rows, columns = np.nonzero(moved[:, :, 0] > 60)
            assert abs(rows.mean() - 30) <= (2 if name == "translate_y" else 1)  # 61 / 3 / 10 = 2.03 pixels at most
            assert abs(columns.mean() - 30) <= (2 if name == "translate_x" else 1)
        posterized = np.asarray(operations["posterize"](Image.fromarray(photo()), np.random.default_rng(seed)))
        assert (posterized % 16 == 0).all()
        solarized = np.asarray(operations["solarize"](Image.fromarray(photo()), np.random.default_rng(seed)))
        changed = solarized != photo()
        assert (photo()[changed] >= 256 - 25).all()


class Pictures:
    """A set of 23 pictures, two of them unreadable, that counts what has been loaded."""

    unreadable = (4, 17)

    def __init__(self, delay=0.0):
        self.loaded, self.delay, self.lock = 0, delay, threading.Lock()

    def __call__(self, index):
        with self.lock:
            self.loaded += 1
        time.sleep(self.delay)
        if index in self.unreadable:
            raise TrimtabError(f"picture {index} is damaged")
        return photo(20 + index, 40, seed=index)


def collect(**options):
    batches = list(ViewLoader(Pictures(), range(23), size=24, views=3, seed=9, **options))
    indices = np.concatenate([batch.indices for batch in batches])
    pixels = np.concatenate([batch.pixels for batch in batches])
    return indices, pixels, [entry for batch in batches for entry in batch.unreadable]


@pytest.mark.parametrize("augmix", [False, True])
def test_loader_gives_the_same_whatever_batch_and_workers(augmix):
    indices, pixels, unreadable = collect(batch=1, workers=1, augmix=augmix)
    assert indices.tolist() == [i for i in range(23) if i not in Pictures.unreadable]
    assert unreadable == [(4, "picture 4 is damaged"), (17, "picture 17 is damaged")]
    for row, index in enumerate(indices):
        alone = make_views(photo(20 + index, 40, seed=index), 24, 3, seed=9, augmix=augmix)
        assert np.array_equal(pixels[row], alone)
    for batch, workers in [(7, 4), (64, 2), (500, 3)]:
        again = collect(batch=batch, workers=workers, augmix=augmix)
        assert np.array_equal(again[0], indices)
        assert np.array_equal(again[1], pixels)
        assert again[2] == unreadable


def test_loader_looks_ahead_but_not_without_bound():
    pictures = Pictures()
    loader = iter(ViewLoader(pictures, range(23), size=16, batch=2, workers=2))
    next(loader)
    time.sleep(0.2)
    assert 2 < pictures.loaded <= 2 * (2 + 2)  # the batch given out, two ahead, one more being submitted
    loader.close()


def test_loader_works_in_parallel():
    started = time.perf_counter()
    list(ViewLoader(Pictures(delay=0.05), range(16), size=16, batch=4, workers=8))
    assert time.perf_counter() - started < 16 * 0.05 * 0.6


def test_stopping_early_ends_the_threads():
    loader = iter(ViewLoader(Pictures(delay=0.01), range(23), size=16, batch=1, workers=4))
    next(loader)
    loader.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("views")]


def test_faults_that_are_not_the_images_come_through():
    def load(index):
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        list(ViewLoader(load, range(3), size=16))
    with pytest.raises(TrimtabError, match="batch must be a whole number of at least 1"):
        ViewLoader(load, range(3), size=16, batch=0)
