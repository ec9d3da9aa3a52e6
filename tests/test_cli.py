"""What all verbs have in common: `python -m trimtab`, --version, -v, completion, exit codes, help texts."""

import errno
import logging
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import trimtab as package
from bench_stores import make_store
from tiny_encoder import ColorEncoder, colored
from trimtab.classifier import Classifier
from trimtab.cli import main
from trimtab.cli.ablate import STUDIES
from trimtab.cli.bench import changes_of_one
from trimtab.cli.main import VERBS, app
from trimtab.cli.plot import FIGURES
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.registry import DEFAULT_METHOD

HERE = Path(__file__).parent


def trimtab(*arguments, **options):
    command = [sys.executable, "-m", "trimtab", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def photo(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name, **_: ColorEncoder())
    Image.fromarray(colored("red", seed=0)).save(tmp_path / "red.png")
    return tmp_path / "red.png"


def test_the_module_is_the_command():
    done = trimtab("bench", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: trimtab bench [OPTIONS]")
    nothing = trimtab()
    assert nothing.returncode == 2
    assert (nothing.stdout + nothing.stderr).startswith("Usage: trimtab [OPTIONS] COMMAND")


def test_the_version_names_what_a_bug_report_needs():
    import numba
    import numpy as np

    said, python = invoke("--version").stdout, ".".join(map(str, sys.version_info[:3]))
    assert said.startswith(f"trimtab {package.__version__} (Python {python}, NumPy {np.__version__}, ")
    assert f", Numba {numba.__version__}" in said
    assert platform.system() in said


def test_the_example_of_a_hyperparameter_is_one_of_the_default_method():
    example = re.search(r"such as\s+(\S+)\.\s", invoke("classify", "--help").stdout)[1]
    make_method(DEFAULT_METHOD, **changes_of_one(DEFAULT_METHOD, [example]))


def test_keel_is_nobody_elses():
    line = next(line for line in invoke("methods").stdout.splitlines() if line.split()[:1] == ["keel"])
    assert line.split()[1] == "trimtab"


def test_the_version_leaves_out_what_is_not_installed(monkeypatch):
    monkeypatch.setitem(main.REPORTED, "Nonsense", "trimtab-nonsense")
    assert "Nonsense" not in invoke("--version").stdout


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_screen_and_has_one_wording(verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke(verb, "-h").stdout
    assert text.startswith(f"Usage: trimtab {verb} ")
    assert "-v, --verbose" in text
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"labelled|centre|colour|one a line|goes on|is no folder", text)


@pytest.mark.parametrize("verb", ["data", "encode", "export", "methods", "prompts"])
def test_help_ends_with_examples(verb):
    examples = invoke(verb, "-h").stdout.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(examples) >= 2
    assert all(line.startswith(f"    trimtab {verb}") for line in examples)


def test_the_help_lists_every_verb_and_the_exit_codes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke("--help").stdout
    for verb in VERBS:
        assert re.search(rf"^  {verb} +\S", text, re.MULTILINE)
    assert re.findall(r"^    (\d+) ", text, re.MULTILINE) == ["0", "1", "2", "130"]


def test_the_names_in_help_texts_are_those_that_are_accepted(tmp_path):
    store, results = make_store(tmp_path / "store", images=40).path, tmp_path / "results"
    invoke("bench", store, "--methods", "tda", "--orders", "1", "--weights", "fixed", "--workers", "1", "-o", results)
    wrong_figure = invoke("plot", "nonsense", results).exception
    wrong_study = invoke("ablate", "nonsense", store).exception
    for error, names in ((wrong_figure, FIGURES), (wrong_study, STUDIES)):
        assert isinstance(error, TrimtabError)
        assert ", ".join(names) in str(error)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("trimtab cl", ["classify"]),
        ("trimtab classify --format j", ["jsonl"]),
        ("trimtab classify --method mcp_", ["mcp_plus"]),
        ("trimtab plot re", ["reliability"]),
    ],
)
def test_the_shell_completes_verbs_and_values(typed, offered):
    words = {"_TRIMTAB_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    assert trimtab(env={**os.environ, **words}).stdout.split() == offered


def test_completion_can_be_installed():
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # else the shell that started the tests decides
    shown = trimtab("--show-completion", "bash", env={**os.environ, **named})
    assert "_TRIMTAB_COMPLETE=complete_bash" in shown.stdout


def test_the_log_is_silent_unless_asked_for(photo):
    quiet = invoke("classify", photo, "--labels", "red,green")
    assert quiet.stderr == "Classified: 1\n"
    for arguments in (("-v", "classify"), ("classify", "--verbose")):
        told = invoke(*arguments, photo, "--labels", "red,green", "--state", photo.with_name("state"))
        assert told.exit_code == 0, told.output
        assert re.search(r"\d\d:\d\d:\d\d INFO  trimtab\.classifier: .*texts of 2 labels", told.stderr)
        assert "images learned" in told.stderr
        assert "DEBUG" not in told.stderr
        assert told.stdout.splitlines()[-1].endswith("red.png")
    assert invoke("classify", photo, "--labels", "red,green").stderr == quiet.stderr


def test_more_v_show_each_image_and_where_an_error_came_from(photo):
    for arguments in (("-vv", "classify"), ("-v", "classify", "-v"), ("classify", "-vv")):
        told = invoke(*arguments, photo, "--labels", "red,green")
        assert "DEBUG trimtab.classifier: image 1: [{'label': 'red'" in told.stderr
    assert "Traceback" not in trimtab("data", "imagnet", "-v").stderr
    told = trimtab("data", "imagnet", "-vv")
    assert told.returncode == 2
    assert "Traceback" in told.stderr
    assert told.stderr.splitlines()[-1].startswith("trimtab: There is no data set 'imagnet'")


def test_a_benchmark_logs_its_runs_and_a_failed_run_shows_in_the_exit_code(tmp_path, monkeypatch):
    store = make_store(tmp_path / "store", images=40)
    arguments = ["bench", store.path, "--methods", "tda", "--orders", "1", "--weights", "fixed", "--workers", "1"]
    told = invoke(*arguments, "-o", tmp_path / "good", "-v")
    assert told.exit_code == 0, told.output
    assert "2 runs to do, of a plan of 2" in told.stderr
    assert len(re.findall(r"INFO  trimtab\.cli\.bench: .*: done", told.stderr)) == 2

    def broken(*_, **__):
        raise FloatingPointError("too much")

    monkeypatch.setattr("trimtab.methods.tda.TDA.walk", broken)
    failed = invoke(*arguments, "-o", tmp_path / "bad")
    assert failed.exit_code == 1
    assert "failed: tda on" in failed.stderr
    assert "too much" in failed.stderr


def test_a_program_that_uses_the_library_sees_no_log_unless_it_wants_to(photo, caplog):
    caplog.set_level(logging.DEBUG, logger="trimtab")
    Classifier(ColorEncoder(), ["red", "green"]).classify(photo)
    assert [record.name for record in caplog.records] == ["trimtab.classifier"] * 2
    code = "from trimtab import Classifier; from tiny_encoder import ColorEncoder\n"
    code += f"Classifier(ColorEncoder(), ['red', 'green']).classify({str(photo)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=HERE)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("data",), 0), (("nonsense",), 2), (("data", "--nonsense"), 2), (("data", "nonsense"), 2)],
)
def test_exit_codes(arguments, code):
    done = trimtab(*arguments)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("data",), ("--help",), ("prompts", "imagenet-r", "--class", "tench")])
def test_a_reader_that_has_seen_enough_ends_the_command_without_a_word(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "trimtab", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def run_with(error, monkeypatch, capsys):
    """What the command says, and its exit code, when a verb raises an error."""

    def verb(**_):
        raise error

    monkeypatch.setattr(main, "app", verb)
    with pytest.raises(SystemExit) as stop:
        main.run()
    return stop.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.EROFS, "Read-only file system", "results"), "results cannot be read or written: Read-only file"),
        (PermissionError(errno.EACCES, "Permission denied", b"/x"), "/x cannot be read or written: Permission denied."),
        (
            OSError(errno.EXDEV, "Cross-device", ".part", None, "a.json"),
            "a.json cannot be read or written: Cross-device.",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "The output cannot be written: No space left on device."),
        (MemoryError(), "There is not enough memory for this;"),
        (UnicodeEncodeError("utf-8", "caf\udce9", 3, 4, "surrogates not allowed"), r"'caf\udce9' is not UTF-8;"),
    ],
)
def test_what_no_verb_foresaw_is_still_one_sentence(error, sentence, monkeypatch, capsys):
    code, said = run_with(error, monkeypatch, capsys)
    assert code == 2
    assert said.startswith(f"trimtab: {sentence}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("error", [ConnectionError("whatever"), ValueError("a bug"), KeyError("a bug")])
def test_a_bug_is_shown_as_one(error, monkeypatch, capsys):
    with pytest.raises(type(error)):
        run_with(error, monkeypatch, capsys)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_sentence(unbuffered):
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "trimtab", "--version"]
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (
            2,
            "trimtab: The output cannot be written: No space left on device.\n",
        )
        command[-1:] = ["data", "nonsense"]
        assert subprocess.run(command, stderr=full, check=False).returncode == 2


@pytest.mark.parametrize(("closed", "arguments", "code"), [(">&-", "data", 0), (">&- 2>&- <&-", "data nonsense", 2)])
def test_closed_streams_are_empty_ones(closed, arguments, code):
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m trimtab {arguments} {closed}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_that_lacks_letters_gets_them_escaped(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    code = "from trimtab.cli.streams import prepare_streams; prepare_streams(); print('日 \\U0001f600 caf\\udce9 ok')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    assert done.stdout == b"\\u65e5 \\ud83d\\ude00 caf\xe9 ok\n"
    listed = trimtab("methods", env=environment)
    assert listed.returncode == 0, listed.stderr
    assert re.search(r"^mcp +(- +)?yes", listed.stdout, re.MULTILINE)
    assert "\\u" not in listed.stdout


def test_an_interrupt_while_the_command_still_loads_is_quiet(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    sources = os.pathsep.join([str(tmp_path), str(Path(package.__file__).parents[1])])
    done = trimtab("data", env={**os.environ, "PYTHONPATH": sources})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
