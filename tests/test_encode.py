"""Encoding a data set: the same features whatever the batch, resumable, nothing unreadable passed over in silence."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.classifier import Classifier
from trimtab.data.base import FileImages, ImageSet, joined
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore, layout
from trimtab.features.encode import encode_images, zero_shot_labels
from trimtab.features.manifest import JPEG_SIDE
from trimtab.images.decode import decode
from trimtab.images.views import make_views

NAMES = tuple(COLORS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def pictures(count=30, load=None, **changes):
    labels = np.arange(count) % len(NAMES)
    given = {
        "name": "colors",
        "class_names": NAMES,
        "labels": labels.astype(np.int64),
        "ids": [f"picture {i}" for i in range(count)],
        "load": load or (lambda i: colored(NAMES[labels[i]], seed=i)),
        "domains": [("day", "night")[i % 2] for i in range(count)],
    }
    return ImageSet(**{**given, **changes})


def test_large_files_are_decoded_smaller_in_a_store_and_by_a_classifier_alike(tmp_path):
    paths = [tmp_path / f"{i}.jpg" for i in range(4)]
    for i, path in enumerate(paths):
        Image.fromarray(colored(NAMES[i], seed=i, height=300, width=420)).save(path, quality=95)
    halves = [pictures(2, FileImages(paths[start : start + 2]), name=str(start), domains=None) for start in (0, 2)]
    store = encode_images(joined(halves), ColorEncoder(), out=tmp_path / "s", views=3, dtype="float32")
    assert store.info.preprocessing[JPEG_SIDE] == 98
    classifier = Classifier(ColorEncoder(), NAMES, views=3)
    exact = ColorEncoder().encode_images(make_views(decode(paths[0]), 24, 3, seed=0))
    for i, path in enumerate(paths):
        np.testing.assert_allclose(store.rows([i])[0], classifier.look(path), atol=1e-6)
    assert 0.999 < store.rows([0])[0, 0] @ exact[0] < 1
    in_memory = encode_images(joined([pictures(4), pictures(4, name="more")]), ColorEncoder(), out=tmp_path / "m")
    assert JPEG_SIDE not in in_memory.info.preprocessing


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_features_are_those_of_the_views(tmp_path):
    encoder = ColorEncoder()
    store = encode_images(pictures(), encoder, out=tmp_path / "s", views=3, seed=4, dtype="float32", batch=7)
    assert max(encoder.calls[1:]) <= 7
    for i in (0, 13, 29):
        expected = encoder.encode_images(make_views(colored(NAMES[i % 4], seed=i), 24, 3, seed=4))
        assert np.array_equal(store.rows([i])[0], expected)
    assert store.info.encoder == "colors"
    assert store.info.encoder_fingerprint == encoder.fingerprint
    assert store.info.preprocessing["size"] == 24
    assert store.info.prompts == "a photo of a {}."
    assert store.domains[:2] == ("day", "night")
    assert store.task().logit_scale == 30.0
    assert np.array_equal(zero_shot_labels(store), store.labels)


def test_batch_and_workers_change_nothing(tmp_path):
    def spoiled(i):
        if i in (3, 20):
            raise TrimtabError(f"picture {i} is damaged")
        return colored(NAMES[i % 4], seed=i)

    found = []
    for number, options in enumerate([{"batch": 1, "workers": 1}, {"batch": 64, "workers": 4}, {"batch": 5}]):
        out = tmp_path / str(number)
        store = encode_images(pictures(load=spoiled), ColorEncoder(), out=out, views=2, **options)
        assert store.skipped == (("picture 3", "picture 3 is damaged"), ("picture 20", "picture 20 is damaged"))
        assert len(store) == 28
        found.append(contents(out))
    assert found[0] == found[1] == found[2]


def test_limit_draws_from_all_classes_and_keeps_each_images_views(tmp_path):
    sorted_by_class = pictures(400, labels=np.repeat(np.arange(4), 100).astype(np.int64))
    whole = encode_images(sorted_by_class, ColorEncoder(), out=tmp_path / "whole", views=2)
    part = encode_images(sorted_by_class, ColorEncoder(), out=tmp_path / "part", views=2, limit=20)
    assert len(part) == 20
    assert set(part.labels) == {0, 1, 2, 3}
    positions = [whole.ids.index(name) for name in part.ids]
    assert positions == sorted(positions)
    assert np.array_equal(part.rows(slice(None)), whole.rows(positions))
    assert len(encode_images(pictures(5), ColorEncoder(), out=tmp_path / "five", limit=9)) == 5


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "VIEWS_PER_SHARD", 8)
    encode_images(pictures(), ColorEncoder(), out=tmp_path / "whole")
    loaded = []

    def load(i, stop):
        if i == stop:
            raise KeyboardInterrupt
        loaded.append(i)
        return colored(NAMES[i % 4], seed=i)

    with pytest.raises(KeyboardInterrupt):
        encode_images(pictures(load=lambda i: load(i, 21)), ColorEncoder(), out=tmp_path / "s", batch=1, workers=1)
    with pytest.raises(TrimtabError, match="unfinished"):
        FeatureStore.open(tmp_path / "s")
    loaded.clear()
    encode_images(pictures(load=lambda i: load(i, None)), ColorEncoder(), out=tmp_path / "s", batch=1, workers=1)
    assert min(loaded) in (20, 21)  # not 16, where the last shard ended
    assert contents(tmp_path / "s") == contents(tmp_path / "whole")
    loaded.clear()
    encode_images(pictures(load=lambda i: load(i, None)), ColorEncoder(), out=tmp_path / "s")
    assert loaded == []


SLOW_RUN = """
import sys, time
sys.path[:0] = [{tests!r}]
from test_encode import *
layout.VIEWS_PER_SHARD = 8

class SlowEncoder(ColorEncoder):
    def encode_images(self, pixels):
        time.sleep(0.02)
        return super().encode_images(pixels)

encode_images(pictures(300), SlowEncoder(), out={out!r}, views=2, batch=2)
"""


def test_sigkill_in_the_middle_and_again(tmp_path, monkeypatch):
    out = tmp_path / "s"
    script = SLOW_RUN.format(tests=str(Path(__file__).parent), out=str(out))
    before = 0
    for _ in range(2):
        run = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
        listed = out / "progress.json"
        deadline = time.monotonic() + 60
        while (done := listed.read_bytes().count(b"sha256") if listed.exists() else 0) < before + 5:
            assert run.poll() is None, run.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        before = done
    monkeypatch.setattr(layout, "VIEWS_PER_SHARD", 8)
    encoder = ColorEncoder()
    encode_images(pictures(300), encoder, out=out, views=2, batch=2)
    assert 0 < sum(encoder.calls) < 600 - 2 * 5 * 8 + 8 + 4  # what was finished was not encoded again (4: the texts)
    encode_images(pictures(300), ColorEncoder(), out=tmp_path / "whole", views=2)
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"views": 0}, "views must be a whole number of at least 1"),
        ({"seed": -1}, "seed must be"),
        ({"dtype": "int8"}, "float16 or float32"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"limit": 0}, "limit must be"),
        ({"templates": "no place for a name"}, "not a template"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path, change, words):
    with pytest.raises(TrimtabError, match=words):
        encode_images(pictures(), ColorEncoder(), out=tmp_path / "s", **change)


def test_empty_and_nameless_sets(tmp_path):
    with pytest.raises(TrimtabError, match="holds no images"):
        encode_images(pictures(0), ColorEncoder(), out=tmp_path / "s")
    with pytest.raises(TrimtabError, match="without class names"):
        encode_images(pictures(class_names=(), labels=np.full(30, -1)), ColorEncoder(), out=tmp_path / "s")


def test_another_encoder_is_not_mixed_in(tmp_path):
    encode_images(pictures(), ColorEncoder(), out=tmp_path / "s")
    with pytest.raises(TrimtabError, match="differs in encoder fingerprint"):
        encode_images(pictures(), ColorEncoder("2"), out=tmp_path / "s")


def test_progress_is_told_before_the_first_batch_and_after_each(tmp_path):
    told = []
    for _ in range(2):  # the second time everything is there
        encode_images(pictures(10), ColorEncoder(), out=tmp_path / "s", batch=4, progress=lambda *now: told.append(now))
    assert told == [(0, 10), (4, 10), (8, 10), (10, 10), (10, 10)]
