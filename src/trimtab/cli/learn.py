"""`trimtab learn`: what is learned from labeled images, one command each."""

import importlib
from collections.abc import Callable

import typer

KINDS = ("coop", "maple")  # each in a module learn_<kind>, as a function of that name


def learn(wrapped: Callable[[Callable[..., None]], Callable[..., None]]) -> typer.Typer:
    """The group of commands; `wrapped` gives each what all commands have."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.callback()(wrapped(_all_kinds))
    for kind in KINDS:
        module = importlib.import_module(f"trimtab.cli.learn_{kind}")
        group.command(kind)(wrapped(getattr(module, f"learn_{kind}")))
    return group


def _all_kinds() -> None:
    """Learn prompts from a few labeled images.

    THE LABELS ARE USED: every table that uses the outcome says so.
    """
