"""`trimtab data` and `trimtab prompts`, as a user calls them."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from image_files import make_image
from trimtab.cli.main import app
from trimtab.data.catalog import CATALOG
from trimtab.errors import TrimtabError


def said_by(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture
def eurosat(tmp_path):
    """A root folder with a whole (tiny) EuroSAT, and DTD's images without their split."""
    rows = [[f"Kind{label}/a_{label}.jpg", label, f"Kind_{label} Land"] for label in range(10)]
    for file, _, _ in rows:
        make_image(tmp_path / "eurosat" / "2750" / file)
    (tmp_path / "eurosat" / "split_zhou_EuroSAT.json").write_text(json.dumps({"train": [], "val": [], "test": rows}))
    (tmp_path / "dtd" / "images").mkdir(parents=True)
    return tmp_path


def test_the_list_has_every_set_with_its_sizes():
    text = said_by("data")
    for entry in CATALOG:
        line = next(line for line in text.splitlines() if line.split()[:1] == [entry.name])
        assert line.split()[1:4] == [f"{entry.classes:,}", f"{entry.test_size:,}", entry.templates]
    assert "groceries-coarse" in text
    assert "NAME+noise:3" in text


def test_the_list_says_what_is_present_and_how_to_lay_out_the_rest(eurosat):
    text = said_by("data", "--root", eurosat)
    lines = {line.split()[0]: line for line in text.splitlines() if line.split()}
    assert lines["eurosat"].split()[-1] == "present"
    assert "missing split_zhou_DescribableTextures.json" in text
    assert "missing food-101/" in text
    assert "imagenetv2-matched-frequency-format-val/0/ ... 999/" in text
    assert "    2750/" not in text  # what is present needs no advice


def test_one_set_is_read_and_described(eurosat):
    text = said_by("data", "EuroSAT", "--root", eurosat)
    assert "eurosat: 10 images, 10 classes, templates satellite" in text
    assert "Classes: Kind_0 Land, Kind_1 Land" in text
    assert "First image: Kind0/a_0.jpg" in text
    assert "split_zhou_OxfordPets.json" in said_by("data", "pets")
    with pytest.raises(TrimtabError, match="lacks oxford_pets/"):
        CliRunner().invoke(app, ["data", "pets", "--root", str(eurosat)], catch_exceptions=False)
    with pytest.raises(TrimtabError, match="is not a folder"):
        CliRunner().invoke(app, ["data", "--root", str(eurosat / "nowhere")], catch_exceptions=False)


def test_a_folder_of_ones_own_is_described(tmp_path):
    make_image(tmp_path / "shots" / "cat" / "1.jpg")
    make_image(tmp_path / "shots" / "dog" / "1.jpg")
    assert "shots: 2 images, 2 classes" in said_by("data", tmp_path / "shots")


def test_prompts_of_a_set_on_disk(eurosat, tmp_path):
    text = said_by("prompts", "eurosat", "--root", eurosat)
    assert "Kind_0 Land: 1 from templates\n    a centered satellite photo of Kind 0 Land.\n" in text
    assert "... and 7 more classes" in text
    cupl = tmp_path / "cupl.json"
    cupl.write_text(json.dumps({f"kind {number} land": ["From above.", "Seen from space."] for number in range(10)}))
    text = said_by(
        "prompts", "eurosat", "--root", eurosat, "--class", "kind 4 land", "--cupl", cupl, "--templates", "tda"
    )
    assert text == (
        "Kind_4 Land: 1 from templates and 2 from CuPL\n"
        "    a centered satellite photo of Kind 4 Land.\n    From above.\n    Seen from space.\n"
    )
    with pytest.raises(TrimtabError, match="did you mean 'Kind_1 Land'"):
        CliRunner().invoke(
            app, ["prompts", "eurosat", "--root", str(eurosat), "--class", "kind 1"], catch_exceptions=False
        )


def test_prompts_of_a_set_that_is_elsewhere():
    text = said_by("prompts", "imagenet-r", "--class", "tench", "--templates", "tda")
    assert text.startswith("tench: 80 from templates\n")
    assert "a origami tench." in text


def test_an_error_is_one_line_and_exit_code_two():
    done = subprocess.run(
        [sys.executable, "-m", "trimtab", "data", "imagnet"],
        capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("trimtab: There is no data set 'imagnet'; choose one of caltech101")
    assert len(done.stderr.strip().splitlines()) == 1
