"""Class names: unique in a task, plain words in a sentence."""

import re
from collections.abc import Sequence

from trimtab import arguments


def words_of(class_name: str) -> str:
    """The words that a sentence uses: underscores become spaces, and the "#2" of a repeated name is dropped."""
    arguments.text("class_name", class_name)
    return " ".join(re.sub(r" #\d+$", "", class_name).replace("_", " ").split())


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Equal names numbered ("missile", "missile #2"): a task needs unique names, and `words_of` drops the number."""
    seen: dict[str, int] = {}
    numbered = []
    for name in arguments.names("names", names):
        seen[name] = seen.get(name, 0) + 1
        numbered.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return tuple(numbered)
