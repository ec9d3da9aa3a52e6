"""`trimtab classify` as a stranger types it."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.classifier import Classifier
from trimtab.cli.classify_lines import Lines
from trimtab.cli.main import app
from trimtab.errors import TrimtabError

NAMES = tuple(COLORS)
LABELS = ("--labels", "red,green,blue,yellow")


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Twelve pictures in two folders, named after what they show; the working folder is theirs."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name, **_: ColorEncoder())
    monkeypatch.chdir(tmp_path)
    for number in range(12):
        file = tmp_path / "photos" / ("a" if number < 6 else "b") / f"{number} {NAMES[number % 4]}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(colored(NAMES[number % 4], seed=number, noise=100)).save(file)
    return sorted((tmp_path / "photos").rglob("*.png"), key=lambda file: int(file.name.split()[0]))


def trimtab(*arguments, stdin=None):
    return CliRunner().invoke(app, ["classify", *(str(argument) for argument in arguments)], input=stdin)


def rows(text):
    return list(csv.DictReader(text.splitlines()))


def test_a_table_with_one_line_per_image(photos):
    result = trimtab(*photos[:3], *LABELS)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    for line, photo in zip(lines, photos, strict=False):
        assert line.endswith(str(photo))
        assert line.split()[0] == photo.stem.split()[1]
        assert line.split()[1].endswith("%")
    assert "Classified: 3" in result.stderr


def test_csv_and_jsonl_hold_what_the_classifier_says(photos):
    classifier = Classifier(ColorEncoder(), NAMES)
    expected = [classifier.classify(photo) for photo in photos]
    found = rows(trimtab("photos", *LABELS, "--format", "csv", "--top", 2).stdout)
    assert [row["path"] for row in found] == [str(photo.relative_to(Path.cwd())) for photo in photos]
    for row, guesses in zip(found, expected, strict=True):
        assert (row["label"], row["label_2"]) == (guesses[0]["label"], guesses[1]["label"])
        assert float(row["score"]) == pytest.approx(guesses[0]["score"], abs=1e-6)
    lines = trimtab("photos/a", "photos/b", *LABELS, "--format", "jsonl", "--top", 9).stdout.splitlines()
    assert [json.loads(line)["predictions"] for line in lines] == expected


def test_labels_from_a_file_and_paths_from_standard_input(photos):
    Path("names.txt").write_text("red\ngreen\nblue\nyellow\n")
    paths = "".join(f"{photo}\n" for photo in photos[:5]) + "\n"
    result = trimtab("-", "--labels-file", "names.txt", "--format", "csv", stdin=paths)
    assert [row["path"] for row in rows(result.stdout)] == [str(photo) for photo in photos[:5]]


def test_unreadable_files_are_named_and_the_exit_code_tells(photos):
    Path("photos/a/0 broken.jpg").write_bytes(b"\xff\xd8 nothing")
    Path("photos/a/notes.txt").write_text("no image")
    result = trimtab("photos", "missing.png", *LABELS, "--format", "csv")
    assert result.exit_code == 1
    assert len(rows(result.stdout)) == 12
    assert "0 broken.jpg is not an image" in result.stderr or "0 broken.jpg is damaged" in result.stderr
    assert "missing.png cannot be read" in result.stderr
    assert "Classified: 12, unreadable: 2" in result.stderr
    assert "that are not images (such as notes.txt)" in result.stderr


def test_state_goes_on_from_run_to_run(photos):
    whole = trimtab(*photos, *LABELS, "--format", "jsonl").stdout
    first = trimtab(*photos[:7], *LABELS, "--format", "jsonl", "--state", "state")
    second = trimtab(*photos[7:], *LABELS, "--format", "jsonl", "--state", "state")
    assert "Continuing from 7 images" in second.stderr
    assert first.stdout + second.stdout == whole
    other = trimtab(photos[0], "--labels", "red,green", "--state", "state")
    assert isinstance(other.exception, TrimtabError)
    assert "other classes" in str(other.exception)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_an_interrupted_run_is_continued(photos, monkeypatch, format):
    options = (*LABELS, "--format", format, "--state", "state")
    assert trimtab("photos", *options, "-o", "whole").exit_code == 0
    Path("state").unlink()
    real, seen = Classifier.classify, 0

    def interrupted(self, image, **more):
        nonlocal seen
        seen += 1
        if seen == 6:
            raise KeyboardInterrupt
        return real(self, image, **more)

    monkeypatch.setattr(Classifier, "classify", interrupted)
    assert trimtab("photos", *options, "-o", "part").exit_code != 0
    monkeypatch.setattr(Classifier, "classify", real)
    assert len(Path("part").read_text().splitlines()) == 5 + (format == "csv")
    with Path("part").open("a") as file:
        file.write("half a li")  # as a kill leaves it
    result = trimtab("photos", *options, "-o", "part")
    assert result.exit_code == 0, result.output
    assert "Classified: 7" in result.stderr
    assert Path("part").read_text() == Path("whole").read_text()


def test_a_file_that_exists_is_not_overwritten(photos):
    Path("mine.csv").write_text("dear diary\n")
    for more in ((), ("--state", "state"), ("--state", "state", "--format", "csv")):
        result = trimtab("photos", *LABELS, "-o", "mine.csv", *more)
        assert isinstance(result.exception, TrimtabError), result.output
        assert "mine.csv exists" in str(result.exception)
    trimtab("photos", *LABELS, "--state", "state")
    for format in ("csv", "jsonl", "table"):
        result = trimtab("photos", *LABELS, "-o", "mine.csv", "--state", "state", "--format", format)
        assert "mine.csv exists" in str(result.exception)
    assert Path("mine.csv").read_text() == "dear diary\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Say what the images may show"),
        (("--labels", "red"), "--labels names only one class"),
        (("--labels", "red,green", "--labels-file", "x"), "not both"),
        (("--labels-file", "nowhere.txt"), "nowhere.txt cannot be read"),
        ((*LABELS, "--format", "xml"), "no format 'xml'"),
        ((*LABELS, "--method", "nonsense"), "no method 'nonsense'"),
        ((*LABELS, "--state", "no/such/folder/state"), "cannot be written"),
        ((*LABELS, "-o", "no/such/folder/file"), "cannot be written"),
    ],
)
def test_wrong_options_are_one_sentence(photos, arguments, words):
    result = trimtab("photos", *arguments)
    assert isinstance(result.exception, TrimtabError)
    assert words in str(result.exception)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such file names")
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_file_names_that_are_not_utf8_or_hold_odd_characters(photos, format):
    odd = [os.fsdecode(b"photos/caf\xe9.png"), 'photos/line\u2028break, "quoted".png', "photos/犬.png"]
    for name in odd:
        Path(name).write_bytes(photos[0].read_bytes())
    options = (*LABELS, "--format", format, "--state", "state", "-o", "out")
    assert trimtab(odd[0], odd[1], *options).exit_code == 0
    again = trimtab(*odd, *options)
    assert "Classified: 1\n" in again.stderr
    text = Path("out").read_bytes().decode("utf-8", "surrogateescape")
    read = csv.DictReader(io.StringIO(text)) if format == "csv" else map(json.loads, text.split("\n")[:-1])
    assert [row["path"] for row in read] == odd


def test_a_failed_start_leaves_no_file(photos):
    result = trimtab("photos", *LABELS, "--method", "nonsense", "-o", "out.csv", "--format", "csv")
    assert isinstance(result.exception, TrimtabError)
    assert not Path("out.csv").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_sentence():
    with Path("/dev/full").open("w") as full:
        lines = Lines(full, lambda path, guesses: path, frozenset())
        with pytest.raises(TrimtabError, match="/dev/full cannot be written: No space left"):
            lines.write("cat.png", [])
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # so that closing does not fail again


SERVICE = """
import sys
sys.path[:0] = [{tests!r}]
import trimtab.encoders
from tiny_encoder import ColorEncoder
trimtab.encoders.load_encoder = lambda name, **_: ColorEncoder()
from trimtab.cli.main import run
sys.argv = ["trimtab", "classify", "-", "--labels", "red,green,blue,yellow", "--state", "state", "--format", "jsonl"]
run()
"""


def test_each_line_comes_at_once_and_a_stop_saves_the_state(photos):
    script = SERVICE.format(tests=str(Path(__file__).parent))
    run = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for photo in photos[:3]:
        run.stdin.write(f"{photo}\n")
        run.stdin.flush()
        assert json.loads(run.stdout.readline())["path"] == str(photo)  # while standard input stays open
    os.kill(run.pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert run.returncode == 130
    run.stdin.close()
    assert Classifier(ColorEncoder(), NAMES).load("state").seen == 3
