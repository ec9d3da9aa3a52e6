"""The cache folder is where the user says, or says why it cannot be."""

import os

import pytest

from trimtab import TrimtabError
from trimtab.files import ABANDONED, cache_folder, sweep


def test_the_environment_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "mine"))
    assert cache_folder("a", "b") == tmp_path / "mine" / "a" / "b"
    assert (tmp_path / "mine" / "a" / "b").is_dir()


def test_a_file_in_its_place_is_named(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "taken"))
    with pytest.raises(TrimtabError, match=r"taken.*cannot be created.*set TRIMTAB_CACHE"):
        cache_folder("lite")


def test_what_killed_processes_left_is_swept(tmp_path):
    (tmp_path / ".manifest.json.71.part").write_bytes(b"half")
    (tmp_path / ".fetch-abc" / "inner").mkdir(parents=True)
    (tmp_path / ".fetch-abc" / "inner" / "half.bin").write_bytes(b"half")
    for kept in (".lock", "mine.part", "manifest.json", ".mine"):
        (tmp_path / kept).write_bytes(b"")
    sweep(tmp_path, untouched=ABANDONED)
    assert (tmp_path / ".manifest.json.71.part").exists(), "somebody may be writing it"
    old = tmp_path / ".fetch-abc"
    for path in (tmp_path / ".manifest.json.71.part", old, old / "inner"):
        os.utime(path, (0, 0))
    sweep(tmp_path, untouched=ABANDONED)
    assert (old / "inner" / "half.bin").exists(), "a file inside is fresh"
    assert not (tmp_path / ".manifest.json.71.part").exists()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", ".mine", "manifest.json", "mine.part"]
