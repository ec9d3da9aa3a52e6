"""Sentences for people, on standard error, so that standard output stays data."""

from rich.console import Console


def say(sentence: str) -> None:
    """Print one sentence on standard error."""
    Console(stderr=True, highlight=False).print(sentence, soft_wrap=True, markup=False)
