"""The sentences that a class really gets: templates filled in, and CuPL's descriptions from the user's file."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.prompts.names import words_of
from trimtab.prompts.templates import PLACEHOLDERS, templates_for

Cupl = Mapping[str, Sequence[str]]


def prompts_for(
    class_names: Sequence[str], templates: str | Sequence[str], cupl: Cupl | Path | str | None = None
) -> dict[str, tuple[str, ...]]:
    """Each class's sentences: its templates filled in, then its CuPL sentences where a file or a mapping is given."""
    class_names = arguments.names("class_names", class_names)
    if len(set(class_names)) < len(class_names):
        twice = next(name for name in class_names if class_names.count(name) > 1)
        raise TrimtabError(f"The class {twice!r} is named more than once; leave one out, or call it '{twice} #2'.")
    patterns = templates_for(templates)
    described = _matched(class_names, cupl) if cupl is not None else {}
    return {
        name: (*(_filled(pattern, words_of(name)) for pattern in patterns), *described.get(name, ()))
        for name in class_names
    }


def read_cupl(path: Path | str) -> dict[str, tuple[str, ...]]:
    """A CuPL file as its authors share it: a JSON object of class name -> list of sentences."""
    try:
        path = arguments.place("cupl", path)
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TrimtabError(f"The CuPL file {path} cannot be read: {error.strerror}.") from None
    except TrimtabError:
        raise
    except ValueError as error:
        raise TrimtabError(f"The CuPL file {path} is not JSON ({error}).") from None
    if not isinstance(found, dict) or not found:
        raise TrimtabError(f'The CuPL file {path} must be a JSON object like {{"class name": ["sentence", ...]}}.')
    return _checked_sentences(found, f"The CuPL file {path}")


def _matched(class_names: Sequence[str], cupl: Cupl | Path | str) -> dict[str, tuple[str, ...]]:
    """CuPL's sentences per class; names match whatever their case, underscores and hyphens."""
    where = "The CuPL mapping" if isinstance(cupl, Mapping) else f"The CuPL file {cupl}"
    given = _checked_sentences(cupl, where) if isinstance(cupl, Mapping) else read_cupl(cupl)
    loose: dict[str, str] = {}
    for key in given:
        other = loose.setdefault(_loosely(key), key)
        if other != key:
            raise TrimtabError(f"{where} holds both {other!r} and {key!r}, which name the same class; keep one.")
    exact = {name: name if name in given else loose.get(_loosely(name)) for name in class_names}
    missing = [name for name, key in exact.items() if key is None]
    if missing:
        raise TrimtabError(
            f"{where} has no sentences for {len(missing)} of {len(class_names)} classes, such as {missing[0]!r}; "
            f"its own names look like {next(iter(given))!r}."
        )
    return {name: tuple(given[key]) for name, key in exact.items() if key is not None}


def _checked_sentences(found: Cupl, where: str) -> dict[str, tuple[str, ...]]:
    if not found:
        raise TrimtabError(f'{where} holds no classes; it must be like {{"class name": ["sentence", ...]}}.')
    for name, sentences in found.items():
        listed = isinstance(sentences, list | tuple) and sentences
        if not (isinstance(name, str) and listed and all(isinstance(s, str) and s.strip() for s in sentences)):
            raise TrimtabError(f"{where} must give {name!r} a list of at least one sentence.")
    return {name: tuple(sentences) for name, sentences in found.items()}


def _loosely(name: str) -> str:
    return " ".join(words_of(name).replace("-", " ").casefold().split())


def _filled(template: str, words: str) -> str:
    for placeholder in PLACEHOLDERS:  # not str.format: a class name may hold braces
        template = template.replace(placeholder, words)
    return template
