"""From labels as people write them (names, or numbers into a list of names) to class indices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import UNLABELED
from trimtab.data.listing import natural
from trimtab.errors import TrimtabError

LABEL_FIELDS: Final = ("label", "class", "class_name", "classname", "category", "target")  # as people call them
CLASS_LISTS: Final = ("classes.txt", "classnames.txt")


def numbered_labels(
    labels: Sequence[str], class_names: Sequence[str] | None, where: str, items: Sequence[str]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class indices and class names for labels given as text; "" means unlabeled.

    Without `class_names` the labels themselves are the classes, in natural order. Numbers are positions in
    `class_names`, unless those are numbers too. `where` and `items` (one name per label) go into error messages.
    """
    given = {label for label in labels if label}
    numbers = bool(given) and all(label.isdecimal() for label in given)
    if class_names is None and numbers:
        raise TrimtabError(
            f"The labels of {where} are numbers; write the classes' names, one a line in the order of the numbers "
            f"(the first is 0), into {CLASS_LISTS[0]} beside it."
        )
    names = tuple(class_names) if class_names is not None else tuple(sorted(given, key=natural))
    codes = {name: code for code, name in enumerate(names)}
    if numbers and not given <= set(codes):
        codes = {str(code): code for code in range(len(names))}
    for label, item in zip(labels, items, strict=True):
        if label and label not in codes:
            raise TrimtabError(f"{item} of {where} has the label {label!r}, which is none of the {len(names)} classes.")
    return np.array([codes[label] if label else UNLABELED for label in labels], dtype=np.int64), names


def class_list_beside(folder: Path) -> tuple[str, ...] | None:
    """The class names, one a line, that a folder holds as classes.txt or classnames.txt; None when it holds none."""
    for path in (folder / name for name in CLASS_LISTS):
        if path.is_file():
            names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
            if len(set(names)) < len(names):
                raise TrimtabError(f"{path} names a class twice; give every class a name of its own.")
            return names
    return None
