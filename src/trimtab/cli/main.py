"""`trimtab`: collects the verbs and turns user errors into one sentence."""

import functools
import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import typer

import trimtab
from trimtab.cli.complaints import WRONG_USE, complain, sentence_of
from trimtab.cli.interruption import CONTINUES, STARTS_OVER, interruption, say_if_interrupted
from trimtab.cli.log import show_log, show_more_log
from trimtab.cli.options import Verbose
from trimtab.cli.streams import flush_streams, prepare_streams, reader_has_left
from trimtab.interrupts import Interrupts

_log = logging.getLogger(__name__)

# Each verb lives in a module of this name below trimtab.cli (with "_" for "-"), as a function of the same name.
# A verb imports what is heavy inside its function, so that `trimtab --help` is quick.
VERBS: tuple[str, ...] = (
    "demo",
    "classify",
    "serve",
    "token",
    "methods",
    "encode",
    "learn",
    "bench",
    "adapt",
    "report",
    "compare",
    "plot",
    "ablate",
    "theory",
    "attack",
    "tune",
    "data",
    "prompts",
    "generate",
    "source-stats",
    "export",
)

GROUPS = ("learn",)  # verbs that have verbs of their own: a function that makes them

# Verbs that go on where they were stopped; `classify` says itself what it keeps.
CONTINUED = ("demo", "serve", "encode", "learn", "bench", "adapt", "ablate", "tune", "generate", "source-stats")

# What a bug report needs to know, where it is installed: its name, and that of its distribution.
REPORTED = {"NumPy": "numpy", "Numba": "numba", "torch": "torch", "ONNX Runtime": "onnxruntime"}

IN_PART, INTERRUPTED = 1, 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    done in part: images could not be read, runs failed, records
       were refused, or the program that read the output has stopped
       reading
  2    wrong use, something given is missing or damaged, or a file
       or the output cannot be written; one sentence on stderr says what
  130  interrupted; one sentence says whether finished work is kept
"""

app = typer.Typer(
    name="trimtab",
    help="Zero-shot image classifiers that adapt to the images they meet: no labels, no training, no GPU.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    # Plain help: its options fit 80 columns, and it comes faster than the boxes drawn by rich.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def run() -> None:
    """Entry point: what a user can cause ends with one sentence on standard error.

    The exit code is 2, or 130 after Ctrl-C and after a service manager's request to stop (SIGTERM).
    """
    prepare_streams()
    with Interrupts() as interrupts:
        code = _exit_code(interrupts)
    if (unwritten := flush_streams()) is not None:
        code = _after_lost_output(unwritten)
    sys.exit(code)


def _exit_code(interrupts: Interrupts) -> int | str | None:
    try:
        app(prog_name="trimtab")  # also when it was started as `python -m trimtab`
    except SystemExit as stop:
        if stop.code == INTERRUPTED:  # what typer makes of Ctrl-C
            _say(interruption())
        return stop.code
    except KeyboardInterrupt:  # before or after typer looks after it
        _say(interruption())
        return INTERRUPTED
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None and interrupts.heard:
            _say(interruption())
            return INTERRUPTED
        if sentence is None:
            raise
        _log.debug("the error below was raised here", exc_info=True)
        complain(sentence)
        return WRONG_USE
    return 0


def _after_lost_output(reason: OSError) -> int:
    if reader_has_left(reason):
        return IN_PART
    complain(f"The output cannot be written: {reason.strerror}.")
    return WRONG_USE


def _say(sentence: str) -> None:
    with suppress(OSError):
        print(sentence, file=sys.stderr, flush=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(_versions())
        raise typer.Exit


def _versions() -> str:
    """Versions for a bug report; packages' are read from their metadata, since importing them takes longer."""
    from importlib.metadata import PackageNotFoundError, version
    from platform import machine, python_version, release, system

    found = [f"Python {python_version()}"]
    for title, package in REPORTED.items():
        with suppress(PackageNotFoundError):
            found.append(f"{title} {version(package)}")
    return f"trimtab {trimtab.__version__} ({', '.join(found)}; {system()} {release()} {machine()})"


@app.callback()
def _root(
    verbose: Verbose = 0,
    version: Annotated[  # noqa: ARG001  (its callback does the work)
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    show_log(verbose)


def _command(verb: Callable[..., None], if_interrupted: str) -> Callable[..., None]:
    """The verb with an option -v of its own, so that -v may also stand after the verb's name."""

    @functools.wraps(verb)
    def command(*, verbose: int, **options: Any) -> None:
        say_if_interrupted(if_interrupted)
        show_more_log(verbose)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: %s", _versions(), " ".join(sys.argv[1:]))
        verb(**options)

    # Raw docstrings hold "\\b" as two letters; as one letter it keeps the lines of the examples that follow it.
    command.__doc__ = (verb.__doc__ or "").replace("\\b\n", "\b\n")
    # What typer reads the options from.
    shape = inspect.signature(verb)
    ours = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=Verbose)
    command.__dict__["__signature__"] = shape.replace(parameters=[*shape.parameters.values(), ours])
    command.__annotations__ = {**verb.__annotations__, "verbose": Verbose}
    return command


for _verb in VERBS:
    _name = _verb.replace("-", "_")
    _found = getattr(importlib.import_module(f"trimtab.cli.{_name}"), _name)
    _wrapped = functools.partial(_command, if_interrupted=CONTINUES if _verb in CONTINUED else STARTS_OVER)
    if _verb in GROUPS:
        app.add_typer(_found(_wrapped), name=_verb)
    else:
        app.command(_verb)(_wrapped(_found))
