"""Sentences for people, on standard error, so that standard output stays data."""


def say(sentence: str) -> None:
    """Print one sentence on standard error."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(sentence, soft_wrap=True, markup=False)
