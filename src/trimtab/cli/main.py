"""`trimtab`: collects the verbs and turns user errors into one sentence."""

import functools
import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

import trimtab
from trimtab.cli.log import show_log, show_more_log
from trimtab.cli.options import Verbose
from trimtab.errors import TrimtabError

_log = logging.getLogger(__name__)

# Each verb lives in a module of this name below trimtab.cli (with "_" for "-"), as a function of the same name.
# A verb imports what is heavy inside its function, so that `trimtab --help` is quick.
VERBS: tuple[str, ...] = (
    "demo",
    "classify",
    "methods",
    "encode",
    "learn",
    "bench",
    "report",
    "plot",
    "ablate",
    "theory",
    "tune",
    "data",
    "prompts",
    "source-stats",
    "export",
)

GROUPS = ("learn",)  # verbs that have verbs of their own: a function that makes them

# Packages that only some verbs need, and the extra that brings them.
EXTRAS = {
    "matplotlib": "plots",
    **dict.fromkeys(("scipy", "sklearn", "optuna", "psutil", "threadpoolctl"), "bench"),
}

WRONG_USE, INTERRUPTED = 2, 130

EXIT_CODES = """\b
Exit codes:
  0    done
  1    done in part: images could not be read, runs failed, or the
       program that read the output has stopped reading
  2    wrong use, or something given is missing or damaged; one
       sentence on stderr says what
  130  interrupted; finished work is kept
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
    """Entry point: user errors end with exit code 2 and one sentence on standard error, Ctrl-C with 130."""
    try:
        app(prog_name="trimtab")  # also when it was started as `python -m trimtab`
    except TrimtabError as error:
        _log.debug("the error below was raised here", exc_info=True)
        _complain(str(error))
        sys.exit(WRONG_USE)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        _complain(f"This needs the package {package}; run: pip install 'trimtab[{EXTRAS[package]}]'")
        sys.exit(WRONG_USE)
    except SystemExit as stop:
        if stop.code == INTERRUPTED:  # what typer makes of Ctrl-C
            print("Interrupted; finished work is kept. Run the same command again to continue.", file=sys.stderr)
        raise


def _complain(sentence: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True, highlight=False).print(f"[bold red]trimtab:[/] {escape(sentence)}", soft_wrap=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(_versions())
        raise typer.Exit


def _versions() -> str:
    """Versions for a bug report; NumPy's is read from its metadata, since importing it takes longer."""
    from importlib.metadata import version
    from platform import python_version

    return f"trimtab {trimtab.__version__} (Python {python_version()}, NumPy {version('numpy')})"


@app.callback()
def _root(
    verbose: Verbose = 0,
    version: Annotated[  # noqa: ARG001  (its callback does the work)
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit."),
    ] = False,
) -> None:
    show_log(verbose)


def _with_verbose(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option -v of its own, so that -v may also stand after the verb's name."""

    @functools.wraps(verb)
    def command(*, verbose: int, **options: Any) -> None:
        show_more_log(verbose)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s: %s", _versions(), " ".join(sys.argv[1:]))
        verb(**options)

    # What typer reads the options from.
    shape = inspect.signature(verb)
    ours = inspect.Parameter("verbose", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=Verbose)
    command.__dict__["__signature__"] = shape.replace(parameters=[*shape.parameters.values(), ours])
    command.__annotations__ = {**verb.__annotations__, "verbose": Verbose}
    return command


for _verb in VERBS:
    _name = _verb.replace("-", "_")
    _found = getattr(importlib.import_module(f"trimtab.cli.{_name}"), _name)
    if _verb in GROUPS:
        app.add_typer(_found(_with_verbose), name=_verb)
    else:
        app.command(_verb)(_with_verbose(_found))
