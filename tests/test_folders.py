"""The cache folder is where the user says, or says why it cannot be."""

import pytest

from trimtab import TrimtabError
from trimtab.files import cache_folder


def test_the_environment_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "mine"))
    assert cache_folder("a", "b") == tmp_path / "mine" / "a" / "b"
    assert (tmp_path / "mine" / "a" / "b").is_dir()


def test_a_file_in_its_place_is_named(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "taken"))
    with pytest.raises(TrimtabError, match=r"taken.*cannot be created.*set TRIMTAB_CACHE"):
        cache_folder("lite")
