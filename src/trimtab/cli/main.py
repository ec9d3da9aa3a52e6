"""`trimtab`: collects the verbs and turns user errors into one sentence."""

import importlib
import sys

import typer
from rich.console import Console
from rich.markup import escape

from trimtab.errors import TrimtabError

# Each verb lives in a module of this name below trimtab.cli, as a function of the same name.
# A verb imports what is heavy inside its function, so that `trimtab --help` is quick.
VERBS: tuple[str, ...] = (
    "demo",
    "classify",
    "methods",
    "encode",
    "bench",
    "report",
    "plot",
    "ablate",
    "theory",
    "tune",
    "data",
    "prompts",
    "export",
)

# Packages that only some verbs need, and the extra that brings them.
EXTRAS = {
    "matplotlib": "plots",
    **dict.fromkeys(("scipy", "sklearn", "optuna", "psutil", "threadpoolctl"), "bench"),
}

app = typer.Typer(
    name="trimtab",
    help="Zero-shot image classifiers that adapt to the images they meet: no labels, no training, no GPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Keep the verbs' names even while there is only one of them."""


for _verb in VERBS:
    _module = importlib.import_module(f"trimtab.cli.{_verb}")
    app.command(_verb)(getattr(_module, _verb))


def run() -> None:
    """Entry point: user errors end with exit code 2 and one sentence on standard error, Ctrl-C with 130."""
    try:
        app()
    except TrimtabError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]trimtab:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(2)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        Console(stderr=True, highlight=False).print(
            f"[bold red]trimtab:[/] This needs the package {package}; run: pip install 'trimtab\\[{EXTRAS[package]}]'",
            soft_wrap=True,
        )
        sys.exit(2)
    except SystemExit as stop:
        if stop.code == 130:  # what typer makes of Ctrl-C
            Console(stderr=True).print("Interrupted; finished work is kept, run the same command again to go on.")
        raise


if __name__ == "__main__":
    run()
