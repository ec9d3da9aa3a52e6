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

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.classifier import Classifier
from trimtab.cli.main import app, run
from trimtab.errors import TrimtabError

NAMES = tuple(COLORS)
LABELS = ("--labels", "red,green,blue,yellow")

# The real command in a process of its own, with an encoder that needs no model.
LAUNCHER = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
import trimtab.encoders
from tiny_encoder import ColorEncoder
trimtab.encoders.load_encoder = lambda name, **_: ColorEncoder()
from trimtab.cli.main import run
sys.argv[:1] = ["trimtab", "classify"]
run()
"""


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


def test_no_readable_image_is_an_error_and_leaves_no_file(photos):
    result = trimtab("missing.png", *LABELS, "-o", "out", "--state", "state")
    assert isinstance(result.exception, TrimtabError)
    assert "No image could be read" in str(result.exception)
    assert "missing.png cannot be read" in result.stderr
    assert not Path("out").exists()
    again = trimtab(photos[0], *LABELS, "--state", "state")
    assert "Continuing" not in again.stderr
    assert "Continuing from 1 image learned before." in trimtab(photos[1], *LABELS, "--state", "state").stderr


def test_state_goes_on_from_run_to_run(photos):
    whole = trimtab(*photos, *LABELS, "--format", "jsonl").stdout
    first = trimtab(*photos[:7], *LABELS, "--format", "jsonl", "--state", "state")
    second = trimtab(*photos[7:], *LABELS, "--format", "jsonl", "--state", "state")
    assert "Continuing from 7 images" in second.stderr
    assert first.stdout + second.stdout == whole
    other = trimtab(photos[0], "--labels", "red,green", "--state", "state")
    assert isinstance(other.exception, TrimtabError)
    assert "other classes" in str(other.exception)


@pytest.mark.parametrize("format", ["csv", "jsonl", "table"])
def test_an_interrupted_run_is_continued(photos, monkeypatch, format):
    options = (*LABELS, "--format", format, "--state", "state")
    assert trimtab("photos", *options, "-o", "whole").exit_code == 0
    Path("state").unlink()
    go_on = stop_after(monkeypatch, 6)
    assert trimtab("photos", *options, "-o", "part").exit_code != 0
    go_on()
    assert len(Path("part").read_text().splitlines()) == 5 + (format == "csv")
    with Path("part").open("a") as file:
        file.write("half a li")  # as a kill leaves it
    result = trimtab("photos", *options, "-o", "part")
    assert result.exit_code == 0, result.output
    assert "Classified: 7" in result.stderr
    assert Path("part").read_text() == Path("whole").read_text()


def stop_after(monkeypatch, images):
    """Let Ctrl-C come at that image; returns what undoes it."""
    real = Classifier.look_ahead

    def stopped(self, items, image_of=None):
        for number, looked in enumerate(real(self, items, image_of), start=1):
            if number == images:
                raise KeyboardInterrupt
            yield looked

    monkeypatch.setattr(Classifier, "look_ahead", stopped)
    return lambda: monkeypatch.setattr(Classifier, "look_ahead", real)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ((), "nothing is kept. Run the same command again to start over. (With --state and -o it would continue.)"),
        (("-o", "out"), "lines stay in out, what was learned is lost. Delete out to start over."),
        (("--state", "kept"), "what was learned is kept in kept. Run again with the images that have no line yet."),
        (("--state", "kept", "-o", "out"), "finished work is kept. Run the same command again to continue."),
    ],
)
def test_an_interrupt_says_what_is_kept(photos, monkeypatch, capsys, files, says):
    stop_after(monkeypatch, 6)
    monkeypatch.setattr(sys, "argv", ["trimtab", "classify", "photos", *LABELS, *files])
    with pytest.raises(SystemExit) as stop:
        run()
    assert stop.value.code == 130
    assert capsys.readouterr().err == f"Interrupted; {says}\n"


def learned(file):
    return Classifier(ColorEncoder(), NAMES).load(file).stream


def same(one, other):
    """Whether two streams have learned the same, bit for bit."""
    return all(np.array_equal(array, other.arrays()[name]) for name, array in one.arrays().items())


@pytest.mark.parametrize("format", ["csv", "jsonl", "table"])
def test_after_a_kill_lines_stay_and_their_images_are_learned_again(photos, monkeypatch, format):
    """The state on the disk is older than the lines; both end as if nothing had happened."""
    command = (*photos, photos[3], *LABELS, "--format", format, "--state", "state", "-o")
    assert trimtab(*command, "whole").exit_code == 0
    whole = learned("state")
    Path("state").unlink()
    go_on = stop_after(monkeypatch, 3)
    trimtab(*command, "part")
    old = Path("state").read_bytes()
    go_on()
    go_on = stop_after(monkeypatch, 6)
    trimtab(*command, "part")
    assert learned("state").seen == 7
    go_on()
    Path("state").write_bytes(old)
    with Path("part").open("ab") as file:
        file.write(b'"half a\nli' if format == "csv" else b'{"half a li')
    result = trimtab(*command, "part")
    assert "Learning again from the last 5 images" in result.stderr
    assert "Classified: 6\n" in result.stderr
    assert Path("part").read_bytes() == Path("whole").read_bytes()
    assert same(learned("state"), whole)
    again = trimtab(*command, "part")
    assert "Classified: 0\n" in again.stderr
    assert "Learning again" not in again.stderr
    assert same(learned("state"), whole)


def test_an_image_that_is_gone_after_a_kill_keeps_its_line(photos, monkeypatch):
    command = ("photos", *LABELS, "--format", "csv", "--state", "state", "-o", "part")
    go_on = stop_after(monkeypatch, 1)
    trimtab(*command)
    old = Path("state").read_bytes()
    go_on()
    assert trimtab(*command).exit_code == 0
    Path("state").write_bytes(old)
    lines = Path("part").read_bytes()
    photos[4].unlink()
    result = trimtab(*command)
    assert result.exit_code == 1
    assert "4 red.png cannot be read" in result.stderr
    assert Path("part").read_bytes() == lines
    assert learned("state").seen == 11
    assert "Learning again" not in trimtab(*command).stderr


def test_lines_that_someone_has_edited_are_kept_and_said(photos):
    command = ("photos", *LABELS, "--format", "csv", "--state", "state", "-o", "part")
    assert trimtab(*command).exit_code == 0
    header, *lines = Path("part").read_text().splitlines(keepends=True)
    kept = "".join([header, *lines[:3:-1]])
    Path("part").write_text(kept)
    result = trimtab(*command)
    assert "part was changed since the state was saved; its lines are kept as they are." in result.stderr
    assert "Classified: 4\n" in result.stderr
    assert Path("part").read_text().startswith(kept)


@pytest.mark.parametrize("begun", ["", "pa", "path,label,score\n"])
@pytest.mark.parametrize("more", [(), ("--state", "state")])
def test_a_kill_in_the_first_second_blocks_nothing(photos, begun, more):
    Path("out.csv").write_text(begun)
    Path(".out.csv.123.part").write_text("path")
    Path(".out.csv.lock").touch()
    assert trimtab("photos", *LABELS, "--format", "csv", "-o", "out.csv", *more).exit_code == 0
    assert len(rows(Path("out.csv").read_text())) == 12
    assert sorted(file.name for file in Path().iterdir() if file.name.startswith(".")) == []


def test_lines_whose_state_is_gone_are_not_mixed_with_others(photos):
    command = ("photos", *LABELS, "--format", "csv", "-o", "out.csv", "--state", "state")
    assert trimtab(*command).exit_code == 0
    Path("state").unlink()
    assert "out.csv exists, but state does not" in str(trimtab(*command).exception)


def test_one_process_at_a_time(photos):
    command = [sys.executable, "-c", LAUNCHER, "-", *LABELS, "--state", "state", "-o", "out", "--format", "jsonl"]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run.stdin.write(f"{photos[0]}\n")
    run.stdin.flush()
    deadline = time.monotonic() + 60
    while not (Path("out").exists() and Path("out").read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    Path("link").symlink_to("state")
    for more in (("--state", "state"), ("--state", "link"), ("-o", "out"), ("--state", "other", "-o", "out")):
        result = trimtab("photos", *LABELS, "--format", "jsonl", *more)
        assert isinstance(result.exception, TrimtabError)
        assert "Another process is using" in str(result.exception)
    run.kill()
    run.communicate()
    result = trimtab("photos", *LABELS, "--state", "state", "-o", "out", "--format", "jsonl")
    assert result.exit_code == 0, result.exception
    assert len(Path("out").read_text().splitlines()) == 13


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_disk_that_gets_full_tears_no_line(photos):
    whole = trimtab("photos", *LABELS, "--format", "csv", "--state", "one", "-o", "whole")
    assert whole.exit_code == 0
    full = """
import trimtab.cli.classify as command
real = command._StateKeeper.save
def save(self):
    real(self)
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (180, resource.RLIM_INFINITY))
command._StateKeeper.save = save
"""
    command = ["photos", *LABELS, "--format", "csv", "--state", "two", "-o", "part"]
    run = subprocess.run([sys.executable, "-c", full + LAUNCHER, *command], stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert "part cannot be written: File too large." in run.stderr
    begun = Path("part").read_bytes()
    assert begun.endswith(b"\n")
    assert Path("whole").read_bytes().startswith(begun)
    assert 1 < len(begun.splitlines()) < 12
    assert trimtab(*command).exit_code == 0
    assert Path("whole").read_bytes() == Path("part").read_bytes()
    assert same(learned("one"), learned("two"))


def test_no_images_is_an_error_and_an_empty_folder_among_others_is_named(photos):
    Path("empty").mkdir()
    Path("photos/notes.txt").write_text("no image")
    result = trimtab("empty", *LABELS, "-o", "out", "--state", "state")
    assert isinstance(result.exception, TrimtabError)
    assert str(result.exception) == "There are no images in empty."
    assert sorted({file.name for file in Path().iterdir()} - {"cache"}) == ["empty", "photos"]
    assert str(trimtab("-", *LABELS, "-o", "out", stdin="\n").exception) == "There are no images in standard input."
    assert not Path("out").exists()
    result = trimtab("empty", "photos", *LABELS)
    assert result.exit_code == 1
    assert "There are no images in empty." in result.stderr
    assert "Classified: 12\n" in result.stderr


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
        ((*LABELS, "-o", "photos"), "photos is a folder; give the name of a file"),
        ((*LABELS, "-o", "both", "--state", "both"), "--state and --out are the same file"),
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
@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_standard_output_on_a_full_disk_is_one_sentence(photos, format):
    command = [sys.executable, "-c", LAUNCHER, "photos", *LABELS, "--format", format]
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert run.stderr == "trimtab: Standard output cannot be written: No space left on device.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("- <&-", "There are no images in standard input."),
        ("- 0>x", "Standard input cannot be read: Bad file descriptor."),  # open for writing only
        ("- </dev/null", "There are no images in standard input."),
    ],
)
def test_closed_and_odd_streams_are_one_sentence(photos, arguments, words):
    command = f'"$0" -c "$1" {arguments.replace(" ", " --labels red,green ", 1)}'
    run = subprocess.run(["sh", "-c", command, sys.executable, LAUNCHER], stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert run.stderr == f"trimtab: {words}\n"


def test_lines_for_a_closed_standard_output_go_nowhere(photos):
    command = f'"$0" -c "$1" photos {" ".join(LABELS)} --state state >&-'
    run = subprocess.run(["sh", "-c", command, sys.executable, LAUNCHER], stderr=subprocess.PIPE, text=True)
    assert (run.returncode, run.stderr) == (0, "Classified: 12\n")
    assert learned("state").seen == 12


def test_a_terminal_that_lacks_letters_and_csv_that_does_not(photos):
    labels = ("--labels", "red,green,blue,gélb")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", LAUNCHER, photos[3], *labels, "--top", "4"]
    table, table_of_csv = (
        subprocess.run([*command, *more], stdout=subprocess.PIPE, env=environment, check=True).stdout
        for more in ((), ("--format", "csv"))
    )
    assert b"g\\xe9lb" in table
    assert "gélb".encode() in table_of_csv


def test_each_line_comes_at_once_and_a_stop_saves_the_state(photos):
    command = [sys.executable, "-c", LAUNCHER, "-", *LABELS, "--state", "state", "--format", "jsonl"]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
