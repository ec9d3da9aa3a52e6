"""Feature stores: what goes in comes out, bad folders are refused, and a kill at any point costs nothing saved."""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trimtab.engine import inputs
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore, FeatureWriter, StoreInfo, arrays, import_npz, layout, progress

N, V, D, C = 23, 3, 16, 4
CLASSES = ("cat", "dog", "owl", "toad")


def unit(*shape, seed=0):
    rows = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def description(**changes):
    info = StoreInfo(
        dataset="pets",
        encoder="tiny",
        encoder_fingerprint="f" * 64,
        preprocessing={"size": 32, "scale": [0.08, 1.0]},
        prompts="photo",
        seed=7,
        views=V,
        dim=D,
        dtype="float16",
        logit_scale=50.0,
        class_names=CLASSES,
        labels=tuple(int(i % C) - (i == 5) * 2 for i in range(N)),
        ids=tuple(f"pets/{i}.jpg" for i in range(N)),
        domains=tuple("photo" if i % 2 else "sketch" for i in range(N)),
    )
    return replace(info, **changes)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(layout, "VIEWS_PER_SHARD", 5 * V)  # 5 images: 23 make four whole shards and a short one


def write(path, info=None, features=None, skip=(), batch=4, stop=None):
    info = info or description()
    features = unit(N, info.views, info.dim) if features is None else features
    with FeatureWriter(path, info, unit(C, D, seed=9)) as out:
        for start in range(out.next_image, N, batch):
            if stop is not None and start >= stop:
                return None
            block = range(start, min(start + batch, N))
            readable = [i for i in block if i not in skip]
            out.add(readable, features[readable], [(i, f"image {i} is damaged") for i in block if i in skip])
        out.finish()
    return FeatureStore.open(path)


@pytest.fixture
def store(tmp_path):
    return write(tmp_path / "store")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_goes_in_comes_out(store):
    features = unit(N, V, D).astype(np.float16)
    again = FeatureStore.open(store.path, verify=True)
    assert len(again) == N
    assert np.array_equal(np.asarray(again.features), features)
    assert again.rows(slice(None)).dtype == np.float16
    assert again.labels.tolist() == [i % C - (i == 5) * 2 for i in range(N)]
    assert again.labels[5] == -1
    assert again.class_names == CLASSES
    assert again.ids[3] == "pets/3.jpg"
    assert again.domains[:2] == ("sketch", "photo")
    assert (again.views, again.dim, again.info.seed, again.info.logit_scale) == (V, D, 7, 50.0)
    assert again.info == description()
    task = again.task()
    assert task.class_names == CLASSES
    assert task.logit_scale == 50.0
    assert np.allclose(task.text_prototypes, unit(C, D, seed=9), atol=1e-6)
    assert sorted(contents(store.path)) == ["manifest.json", *(f"shard-0000{i}.npy" for i in range(5)), "text.npy"]


def test_rows_follow_numpys_rules(store):
    features = unit(N, V, D).astype(np.float16)
    for selection in (slice(3, 17, 2), slice(None, None, -1), [22, 0, 7, 7], [-1], [], features[:, 0, 0] > 0):
        assert np.array_equal(store.rows(selection), features[selection])
        assert np.array_equal(store.features[selection], features[selection])
    assert np.array_equal(store.features[6], features[6])
    assert store.features.shape == (N, V, D)
    assert np.array_equal(np.concatenate(list(store.blocks(4))), features)
    for wrong in ([N], 0, "first", None, [[0, 1]], 1.5):
        with pytest.raises(TrimtabError, match="selection must be a slice or a list of numbers below 23"):
            store.rows(wrong)
    with pytest.raises(IndexError):
        store.features[-N - 1]


def test_rows_are_copies_and_files_cannot_be_written_through_them(store):
    rows = store.rows(slice(0, 5))
    rows[:] = 0
    assert store.rows([0]).any()


def test_more_shards_than_may_be_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("trimtab.features.rows.OPEN_SHARDS", 2)
    store = write(tmp_path / "s")
    order = np.random.default_rng(0).permutation(N)
    assert np.array_equal(store.rows(order), unit(N, V, D).astype(np.float16)[order])
    assert store.features._map.cache_info().currsize <= 2


def test_float32_is_exact(tmp_path):
    assert np.array_equal(write(tmp_path / "s", description(dtype="float32")).features, unit(N, V, D))


def test_unreadable_images_are_left_out_and_listed(tmp_path):
    skip = (0, 5, 6, 7, 8, 9, 22)  # all of the second shard, too
    store = write(tmp_path / "s", skip=skip)
    kept = [i for i in range(N) if i not in skip]
    assert np.array_equal(np.asarray(store.features), unit(N, V, D).astype(np.float16)[kept])
    assert store.ids == tuple(f"pets/{i}.jpg" for i in kept)
    assert store.labels.tolist() == [i % C for i in kept]
    assert store.skipped == tuple((f"pets/{i}.jpg", f"image {i} is damaged") for i in skip)
    write(tmp_path / "s", skip=skip)  # the same again is a finished store, not a conflict
    with pytest.raises(TrimtabError, match="None of the 23 images could be read: image 0 is damaged"):
        write(tmp_path / "none", skip=range(N))


def test_equal_input_gives_equal_files_and_batches_do_not_matter(tmp_path):
    one, other = write(tmp_path / "a", batch=1, skip=(3,)), write(tmp_path / "b", batch=9, skip=(3,))
    assert contents(one.path) == contents(other.path)
    assert one.fingerprint == other.fingerprint
    changed = write(tmp_path / "c", features=unit(N, V, D, seed=1))
    assert changed.fingerprint != one.fingerprint


@pytest.mark.parametrize(
    ("skip", "fingerprint"),
    [
        ((), "bf3123f163ba4df1b044def55696b84e26a7629a3f70f580325f87d5d823f9ec"),
        ((2, 11), "334532e9f372e8b9b2a770658566ed3f38997c7cebb30913b26893001ec98dde"),
        ((0, 5, 6, 7, 8, 9, 22), "c4ed8ab9436e1fc5372df12255e8c3b1d36a6df5ae50074bc36ec1c0f403bf32"),
    ],
)
def test_fingerprints_are_those_of_the_first_version(tmp_path, skip, fingerprint):
    assert write(tmp_path / "s", skip=skip).fingerprint == fingerprint  # records of benchmarks are found by them


def test_a_stopped_writer_goes_on_and_ends_with_the_same_files(tmp_path):
    whole = write(tmp_path / "whole", skip=(2, 11))
    assert write(tmp_path / "s", skip=(2, 11), stop=12) is None
    with pytest.raises(TrimtabError, match=r"unfinished; run the same `trimtab encode` again"):
        FeatureStore.open(tmp_path / "s")
    with FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9)) as out:
        assert out.next_image == 12
    write(tmp_path / "s", skip=(2, 11))
    assert contents(tmp_path / "s") == contents(whole.path)


def test_ctrl_c_costs_nothing_at_all(tmp_path):
    whole = write(tmp_path / "whole", skip=(2, 11))

    def interrupted():
        with FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9)) as out:
            readable = [i for i in range(13) if i not in (2, 11)]
            out.add(readable, unit(N, V, D)[readable], [(2, "image 2 is damaged"), (11, "image 11 is damaged")])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9)) as out:
        assert out.next_image == 13
        out.add(range(13, N), unit(N, V, D)[13:], [])
        out.finish()
    assert contents(tmp_path / "s") == contents(whole.path)


def test_only_rows_with_the_listed_checksum_are_continued_from(tmp_path):
    whole = write(tmp_path / "whole")
    shard, listed = tmp_path / "s" / "shard-00001.npy", tmp_path / "s" / "progress.json"
    write(tmp_path / "s", stop=7, batch=1)  # two rows are in the second shard
    short = shard.read_bytes()
    write(tmp_path / "s", stop=9, batch=1)
    long, progress_of_long = shard.read_bytes(), listed.read_bytes()
    flipped = long[:-3] + bytes([long[-3] ^ 1]) + long[-2:]
    full = (whole.path / "shard-00001.npy").read_bytes()
    # Longer than listed is what a kill before progress.json leaves; the others are damage.
    for content, expected in [(long, 9), (full, 9), (short, 5), (long[:-60], 5), (flipped, 5), (b"", 5), (None, 5)]:
        shard.unlink(missing_ok=True)
        if content is not None:
            shard.write_bytes(content)
        with FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9)) as out:
            assert out.next_image == expected
        assert listed.read_bytes() == progress_of_long
    write(tmp_path / "s")
    assert contents(tmp_path / "s") == contents(whole.path)


def test_damaged_progress_and_lost_shards_are_done_again(tmp_path):
    whole = write(tmp_path / "whole", skip=(2, 11))
    for number, (spoil, expected) in enumerate(
        [
            (lambda folder: (folder / "shard-00001.npy").write_bytes(b"short"), 5),
            (lambda folder: (folder / "shard-00002.npy").unlink(), 10),
            (lambda folder: (folder / ".shard-00003.npy.77.part").write_bytes(b"left by a kill"), 16),
            (lambda folder: (folder / "progress.json").write_bytes(b'{"images":16,"sha'), 0),
            (lambda folder: (folder / "progress.json").write_bytes(b'{"images":16}'), 0),
            (lambda folder: (folder / "progress.json").unlink(), 0),
        ]
    ):
        folder = tmp_path / str(number)
        write(folder, skip=(2, 11), stop=16)
        spoil(folder)
        with FeatureWriter(folder, description(), unit(C, D, seed=9)) as out:
            assert out.next_image == expected
        write(folder, skip=(2, 11))
        assert contents(folder).items() >= contents(whole.path).items()


def test_stores_begun_by_another_version_are_refused(tmp_path, monkeypatch):
    write(tmp_path / "s", stop=8)
    monkeypatch.setattr(layout, "VIEWS_PER_SHARD", 6 * V)
    with pytest.raises(TrimtabError, match="was begun by another version of trimtab; delete it and encode again"):
        write(tmp_path / "s")
    (tmp_path / "s" / "unfinished.json").write_text('{"info": {}, "per_shard": 5, "text_sha256": ""}')
    with pytest.raises(TrimtabError, match=r"unfinished.json is damaged or was written by another version of trimtab"):
        write(tmp_path / "s")


KILL_SKIPS = (6, 10, 11, 12, 13, 14)  # one image, and all of the third shard

# Forks a child for every system call that a kill could come before or after, and lets it die there.
KILL_EVERYWHERE = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{tests!r}]
import test_features as t
from trimtab.features import layout, progress
layout.VIEWS_PER_SHARD = 5 * t.V
progress.SECONDS_BETWEEN_SAVES = {pause}
os.fsync = lambda _: None  # a power cut is not tried here, and disks may take 20 ms for it

def dying_at(point):
    calls = 0
    def wrap(function):
        def call(*arguments, **options):
            nonlocal calls
            for after in (False, True):
                calls += 1
                if calls == point:
                    os.kill(os.getpid(), signal.SIGKILL)
                if not after:
                    result = function(*arguments, **options)
            return result
        return call
    os.fsync = wrap(os.fsync)
    Path.replace = wrap(Path.replace)
    Path.unlink = wrap(Path.unlink)

point = 0
while True:
    point += 1
    folder = Path({folder!r}) / str(point)
    child = os.fork()
    if child == 0:
        dying_at(point)
        t.write(folder, skip=t.KILL_SKIPS)
        os._exit(0)
    died = os.waitpid(child, 0)[1]
    t.write(folder, skip=t.KILL_SKIPS)
    if died == 0:
        break
print(point)
"""


@pytest.mark.parametrize("pause", [0, 99])  # with and without saves between the shards
def test_sigkill_at_every_point_loses_nothing(tmp_path, pause):
    whole = write(tmp_path / "whole", skip=KILL_SKIPS)
    folder = str(tmp_path / "killed")
    script = KILL_EVERYWHERE.format(tests=str(Path(__file__).parent), folder=folder, pause=pause)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    points = int(result.stdout)
    assert points > 50  # text, unfinished, four shards, five times progress, manifest; each before and after
    for point in range(1, points + 1):
        found = contents(tmp_path / "killed" / str(point))
        visible = {name: content for name, content in found.items() if not name.startswith(".")}
        assert visible == contents(whole.path), point


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"views": 2}, r"views \(3 there, 2 here\)"),
        ({"encoder_fingerprint": "e" * 64}, "encoder fingerprint"),
        ({"seed": 8}, r"seed \(7 there, 8 here\)"),
        ({"class_names": ("cat", "dog", "owl", "frog")}, "class names"),
        ({"labels": (0,) * N}, "labels"),
        ({"preprocessing": {"size": 64}}, "preprocessing"),
        ({"dtype": "float32"}, "dtype"),
    ],
)
@pytest.mark.parametrize("stop", [12, None])
def test_other_features_are_never_mixed_in(tmp_path, change, words, stop):
    write(tmp_path / "s", stop=stop)
    before = contents(tmp_path / "s")
    with pytest.raises(TrimtabError, match=words):
        write(tmp_path / "s", description(**change))
    assert {name: content for name, content in contents(tmp_path / "s").items() if name != ".lock"} == {
        name: content for name, content in before.items() if name != ".lock"
    }


def test_other_text_prototypes_are_noticed(tmp_path, store):
    with pytest.raises(TrimtabError, match="differs in text prototypes"):
        FeatureWriter(store.path, description(), unit(C, D, seed=1))


def test_a_finished_store_is_not_written_again(store):
    before = {path: path.stat().st_mtime_ns for path in store.path.iterdir()}
    with FeatureWriter(store.path, description(), unit(C, D, seed=9)) as out:
        assert out.next_image == N
        out.finish()
    assert {path: path.stat().st_mtime_ns for path in store.path.iterdir()} == before


def test_two_writers_at_once_are_refused(tmp_path):
    pytest.importorskip("fcntl")
    with (
        FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9)),
        pytest.raises(TrimtabError, match="Another process is writing"),
    ):
        FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9))
    write(tmp_path / "s")


def test_wrong_encoder_and_classes_are_refused(store):
    FeatureStore.open(store.path, encoder="f" * 64, class_names=CLASSES)
    with pytest.raises(TrimtabError, match="encoded by tiny with fingerprint ffffffffffff, not by another with eeee"):
        FeatureStore.open(store.path, encoder="e" * 64)
    with pytest.raises(TrimtabError, match="same classes in another order"):
        FeatureStore.open(store.path, class_names=CLASSES[::-1])
    with pytest.raises(TrimtabError, match="'newt' is only in one"):
        FeatureStore.open(store.path, class_names=[*CLASSES, "newt"])
    with pytest.raises(TrimtabError, match="'toad' is only in one"):
        FeatureStore.open(store.path, class_names=CLASSES[:3])


def test_missing_foreign_and_empty_folders(tmp_path):
    with pytest.raises(TrimtabError, match="no feature store at"):
        FeatureStore.open(tmp_path / "nowhere")
    (tmp_path / "photos").mkdir()
    with pytest.raises(TrimtabError, match="not a feature store"):
        FeatureStore.open(tmp_path / "photos")
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"")
    with pytest.raises(TrimtabError, match=r"not empty and not a feature store \(it holds holiday.jpg\)"):
        write(tmp_path / "photos")
    (tmp_path / "photos" / "manifest.json").write_text('{"name": "my web app"}')
    with pytest.raises(TrimtabError, match=r"manifest.json is damaged"):
        FeatureStore.open(tmp_path / "photos")
    (tmp_path / "photos" / "manifest.json").write_text('{"format": "something else"}')
    with pytest.raises(TrimtabError, match="does not describe a feature store"):
        FeatureStore.open(tmp_path / "photos")


def test_truncated_missing_and_tampered_files(tmp_path):
    cases = [
        ("shard-00002.npy", lambda content: content[:-1], "shard-00002.npy is truncated or changed"),
        ("shard-00004.npy", None, "shard-00004.npy is missing"),
        ("text.npy", lambda content: content[:50], "text.npy is missing or was changed"),
        ("text.npy", lambda content: content[:-1] + b"x", "text.npy is missing or was changed"),
        ("text.npy", None, "text.npy is missing or was changed"),
        ("manifest.json", lambda content: content[:200], "manifest.json is damaged"),
        ("manifest.json", lambda content: content.replace(b"pets/4.jpg", b"pets/9.jpg"), "checksum differs"),
        ("manifest.json", lambda content: content.replace(b'"version":1', b'"version":3'), "feature format 3"),
    ]
    for number, (name, spoil, words) in enumerate(cases):
        store = write(tmp_path / str(number))
        content = (store.path / name).read_bytes()
        if spoil:
            (store.path / name).write_bytes(spoil(content))
        else:
            (store.path / name).unlink()
        with pytest.raises(TrimtabError, match=words):
            FeatureStore.open(store.path)


def test_changed_bytes_are_found_by_verify(store):
    shard = store.path / "shard-00001.npy"
    content = bytearray(shard.read_bytes())
    content[-3] ^= 1
    shard.write_bytes(bytes(content))
    FeatureStore.open(store.path)
    with pytest.raises(TrimtabError, match=r"shard-00001.npy was changed"):
        FeatureStore.open(store.path, verify=True)


def test_features_that_are_not_unit_or_not_finite_are_refused(tmp_path):
    for value, words in [(np.nan, "length nan"), (2.0, "length 2")]:
        features = unit(N, V, D)
        features[7, 1] *= value
        with pytest.raises(TrimtabError, match=rf"pets/7.jpg \(view 1\) has {words}"):
            write(tmp_path / "s", features=features)


def test_rows_are_checked_as_they_are_stored(tmp_path):
    features = unit(N, V, D)
    features[7, 1] = 1e5  # infinite in float16, as long as any in float32
    with pytest.raises(TrimtabError, match=r"pets/7.jpg \(view 1\) has length inf"):
        write(tmp_path / "s", features=features)
    store = write(tmp_path / "s")
    assert store.rows_checked
    assert store.features.rows_checked
    assert sum(len(block) for block in inputs.blocks(store.features, D, 4)) == N  # nothing that `run` would refuse
    assert arrays.SHORTEST == inputs.SHORTEST


def test_images_are_added_in_order(tmp_path):
    with FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9)) as out:
        for indices, unreadable in [([1], []), ([0, 0], []), ([0], [(0, "damaged")]), ([0], [(2, "damaged")])]:
            with pytest.raises(ValueError, match="in order, from 0 on"):
                out.add(indices, unit(len(indices), V, D), unreadable)
        out.add([1, 0], unit(N, V, D)[[1, 0]], [])
        out.add(range(2, N), unit(N, V, D)[2:], [])
        out.finish()
    assert np.array_equal(FeatureStore.open(tmp_path / "s").features, unit(N, V, D).astype(np.float16))


@pytest.mark.parametrize("shard", range(5))
@pytest.mark.parametrize("full_for_good", [False, True])
def test_a_full_disk_is_one_sentence_and_leaves_a_resumable_store(tmp_path, monkeypatch, shard, full_for_good):
    whole = write(tmp_path / "whole")
    filled = False

    def full(path, content):
        nonlocal filled
        if path.name == f"shard-0000{shard}.npy" or (filled and full_for_good):
            filled = True
            raise OSError(28, "No space left on device")
        real(path, content)

    real = progress.write_whole
    monkeypatch.setattr(progress, "write_whole", full)
    with pytest.raises(TrimtabError, match="No space left on device; what is finished is kept"):
        write(tmp_path / "s")
    monkeypatch.setattr(progress, "write_whole", real)
    write(tmp_path / "s")
    assert contents(tmp_path / "s") == contents(whole.path)


def test_a_writer_may_try_again_after_a_full_disk(tmp_path, monkeypatch):
    whole = write(tmp_path / "whole")
    real, failing = progress.write_whole, {"shard-00001.npy", "shard-00004.npy"}

    def full_once(path, content):
        if path.name in failing:
            failing.remove(path.name)
            raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(progress, "write_whole", full_once)
    with FeatureWriter(tmp_path / "s", description(), unit(C, D, seed=9)) as out:
        while out.next_image < N:
            with suppress(TrimtabError):
                out.add([out.next_image], unit(N, V, D)[[out.next_image]], [])
        out.finish()
    assert not failing
    assert contents(tmp_path / "s") == contents(whole.path)


def test_wrong_descriptions_are_refused():
    with pytest.raises(TrimtabError, match="float16 or float32, not as 'float64'"):
        description(dtype="float64")
    with pytest.raises(TrimtabError, match="23 images but 2 labels"):
        description(labels=(0, 1))
    with pytest.raises(TrimtabError, match="A label is 4, but there are 4 classes"):
        description(labels=(4,) * N)


def test_arrays_of_others_become_a_store(tmp_path):
    features, text = unit(N, D) * 7, unit(C, D, seed=9) * 3
    labels = np.arange(N) % C
    store = FeatureStore.from_arrays(tmp_path / "s", features, labels, text, CLASSES, 30.0, dtype="float32")
    assert store.features.shape == (N, 1, D)
    assert np.allclose(store.features[:][:, 0], unit(N, D), atol=1e-6)
    assert store.labels.tolist() == labels.tolist()
    assert store.task().logit_scale == 30.0
    FeatureStore.from_arrays(tmp_path / "s", features, labels, text, CLASSES, 30.0, dtype="float32")
    with pytest.raises(TrimtabError, match="already holds other features"):
        FeatureStore.from_arrays(tmp_path / "s", features[::-1], labels, text, CLASSES, 30.0, dtype="float32")


def test_npz_files_become_stores(tmp_path):
    file = tmp_path / "pacs.npz"
    arrays = {"features": unit(N, D).astype(np.float16), "text": unit(C, D, seed=9), "class_names": np.array(CLASSES)}
    np.savez(file, **arrays, labels=np.arange(N) % C, domain=np.arange(N) % 2, domain_names=np.array(["photo", "art"]))
    store = import_npz(file)
    assert store.path == tmp_path / "pacs"
    assert store.info.dataset == "pacs"
    assert store.domains[:3] == ("photo", "art", "photo")
    assert store.task().logit_scale == 100.0
    np.savez(file, **arrays)
    assert (import_npz(file, tmp_path / "unlabeled").labels == -1).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": None}, "has no array 'text'; it holds class_names, features"),
        ({"text": unit(C, D).T}, "one column per class; give it transposed"),
        ({"text": unit(C + 1, D)}, r"\(classes, d\) = \(4, 16\), not \(5, 16\)"),
        ({"features": np.zeros((3, D), np.float32)}, r"Row 0 \(view 0\) of features is zero"),
        ({"features": np.full((3, D), 1e-8)}, r"Row 0 \(view 0\) of features is zero"),
        ({"features": np.full((3, D), 1e300)}, r"Row 0 \(view 0\) of features is zero or not finite"),
        ({"features": np.zeros((2, 2, 2, 2), np.float32)}, "features must be numbers of shape"),
        ({"class_names": np.array(CLASSES, dtype=object)}, "Python objects, which could run code"),
        ({"labels": np.arange(N + 1) % C}, "23 images but 24 labels"),
        ({"class_names": np.array(["cat", "cat", "owl", "toad"])}, "'cat' more than once"),
        ({"class_names": np.array(["cat", "", "owl", "toad"])}, "class_names must hold names that are not empty"),
        ({"class_names": np.array("cat")}, "class_names must be a list of names"),
        ({"labels": np.full(N, 0.5)}, "labels must be whole numbers; item 0 is 0.5"),
        ({"labels": np.full(N, np.nan)}, "labels must be whole numbers; item 0 is nan"),
        ({"labels": np.array(["cat"] * N)}, "labels must be an array of numbers"),
        ({"ids": np.arange(3)}, "There are 3 images but 23 labels"),
        ({"logit_scale": np.ones(2)}, "'logit_scale' .* must hold one number"),
        ({"logit_scale": np.array("hot")}, "logit_scale must be a positive number"),
        ({"domain": np.full(N, 7), "domain_names": np.array(["art"])}, "must number the 1 names of 'domain_names'"),
    ],
)
def test_npz_files_that_cannot_be_stores(tmp_path, change, words):
    arrays = {"features": unit(N, D), "text": unit(C, D, seed=9), "class_names": np.array(CLASSES)} | change
    np.savez(tmp_path / "f.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(TrimtabError, match=words):
        import_npz(tmp_path / "f.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["f.npz"], "a refused import has left something behind"


@pytest.mark.parametrize("row", [0, N - 1])
def test_a_refused_row_leaves_no_folder(tmp_path, monkeypatch, row):
    monkeypatch.setattr(arrays, "ROWS_AT_A_TIME", 4)
    features = unit(N, D)
    features[row] = np.nan
    for details in ({}, {"encoder_fingerprint": "f" * 64}):
        with pytest.raises(TrimtabError, match=rf"Row {row} \(view 0\) of features is zero or not finite"):
            FeatureStore.from_arrays(tmp_path / "s", features, None, unit(C, D, seed=9), CLASSES, **details)
        assert list(tmp_path.iterdir()) == []


def test_missing_and_damaged_npz(tmp_path):
    with pytest.raises(TrimtabError, match="There is no file"):
        import_npz(tmp_path / "no.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(TrimtabError, match=r"bad.npz is not an .npz file: cut off, or of another kind"):
        import_npz(tmp_path / "bad.npz")
    (tmp_path / "notes.npz").write_text("features: see the other file\n")
    with pytest.raises(TrimtabError, match=r"notes.npz is not an .npz file"):
        import_npz(tmp_path / "notes.npz")
    np.savez(tmp_path / "whole.npz", features=unit(N, D), text=unit(C, D, seed=9), class_names=np.array(CLASSES))
    content = bytearray((tmp_path / "whole.npz").read_bytes())
    content[200] ^= 255
    (tmp_path / "whole.npz").write_bytes(content)
    with pytest.raises(TrimtabError, match=r"whole.npz cannot be read as .npz"):
        import_npz(tmp_path / "whole.npz")


def test_names_in_any_script_and_names_that_are_not_utf8(tmp_path):
    ids = ("Straße.jpg", "猫 \u2028.png", "latin-\udce9.png", *description().ids[3:])
    store = write(tmp_path / "s", description(ids=ids, class_names=("chat", "犬", "hibou", "crapaud")))
    assert FeatureStore.open(store.path).ids == ids
    assert FeatureStore.open(store.path).class_names[1] == "犬"


def test_an_edited_progress_is_not_believed(tmp_path):
    whole = write(tmp_path / "whole")
    write(tmp_path / "s", stop=12)
    file = tmp_path / "s" / "progress.json"
    listed = json.loads(file.read_bytes())
    listed["shards"][0]["rows"] = []  # once taken for a shard without rows
    file.write_text(json.dumps(listed))
    write(tmp_path / "s")
    assert contents(tmp_path / "s") == contents(whole.path)


def test_the_next_writer_sweeps_what_a_kill_left(tmp_path):
    write(tmp_path / "s", stop=8)
    (tmp_path / "s" / ".shard-00001.npy.71.part").write_bytes(b"half")
    write(tmp_path / "s")
    assert not list((tmp_path / "s").glob(".*"))
    (tmp_path / "s" / ".manifest.json.71.part").write_bytes(b"half")
    write(tmp_path / "s")  # nothing to do, but it holds the lock
    assert not list((tmp_path / "s").glob(".*.part"))


def test_manifest_is_plain_json(store):
    manifest = json.loads((store.path / "manifest.json").read_text())
    assert manifest["format"] == "trimtab-features"
    assert manifest["class_names"] == list(CLASSES)
    assert np.load(store.path / manifest["shards"][0]["file"]).shape == (5, V, D)
