import json

import pytest

from trimtab.encoders.lite.built_once import CHECKSUMS, built_once
from trimtab.errors import TrimtabError


def build(folder):
    (folder / "part.bin").write_bytes(b"whole")


def refuse(folder):
    raise AssertionError("built although a whole folder was there")


def test_builds_once_and_then_reuses(tmp_path, capsys):
    folder = built_once(tmp_path / "parts" / "tower", build, "tower")
    assert (folder / "part.bin").read_bytes() == b"whole"
    assert "preparing the tower" in capsys.readouterr().err
    assert built_once(folder, refuse, "tower") == folder
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "part.bin").write_bytes(b"who"),
        lambda folder: (folder / "part.bin").unlink(),
        lambda folder: (folder / CHECKSUMS).write_text("[]"),
        lambda folder: (folder / CHECKSUMS).write_text("{}"),
        lambda folder: (folder / CHECKSUMS).write_text('{"part.bin'),
        lambda folder: (folder / CHECKSUMS).unlink(),
    ],
)
def test_damage_is_noticed_and_mended(tmp_path, capsys, damage):
    folder = built_once(tmp_path / "tower", build, "tower")
    damage(folder)
    built_once(folder, build, "tower")
    assert (folder / "part.bin").read_bytes() == b"whole"
    assert list(json.loads((folder / CHECKSUMS).read_text())) == ["part.bin"]
    assert "rebuilding the damaged tower" in capsys.readouterr().err


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def interrupted(folder):
        build(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        built_once(tmp_path / "tower", interrupted, "tower")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TrimtabError, match=r"file cannot be written to .* set TRIMTAB_CACHE"):
        built_once(tmp_path / "file" / "tower", build, "tower")


def test_two_builders_at_once_agree(tmp_path):
    folder = tmp_path / "tower"

    def slow(temporary):
        built_once(folder, build, "tower")  # another process finishes first
        build(temporary)

    assert built_once(folder, slow, "tower") == folder
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tower"]
