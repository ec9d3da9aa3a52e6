"""Hand-written templates: named sets. Which set a method's authors use on each data set stands in the method's file.

Read from the papers' tables and the released programs; where a paper and its program differ, the program counts
(except for MCP, whose table is followed).
"""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.methods import list_methods, method_class

PLACEHOLDERS: Final = ("{}", "{c}")


def _lines(name: str) -> tuple[str, ...]:
    return tuple(resources.files("trimtab.prompts").joinpath(name).read_text(encoding="utf-8").splitlines())


TEMPLATE_SETS: Final = MappingProxyType(
    {
        "photo": ("a photo of a {}.",),
        "name": ("{}",),
        "texture": ("{} texture.",),
        "satellite": ("a centered satellite photo of {}.",),
        "aircraft": ("a photo of a {}, a type of aircraft.",),
        "flower": ("a photo of a {}, a type of flower.",),
        "food": ("a photo of {}, a type of food.",),
        "pet": ("a photo of a {}, a type of pet.",),
        "car": ("a photo of a {}, a type of car.",),
        "car-colors": ("a photo of a {}.", "A {} featuring a wide range of color options for easy selection."),
        "action": ("a photo of a person doing {}.",),
        "emoji": ("an emoji of a {}.", "a drawing of a {}."),
        "imagenet7": (  # the seven that work best on ImageNet
            "itap of a {}.",
            "a bad photo of the {}.",
            "a origami {}.",
            "a photo of the large {}.",
            "a {} in a video game.",
            "art of the {}.",
            "a photo of the small {}.",
        ),
        "imagenet80": _lines("imagenet80.txt"),  # the list published with CLIP
    }
)


def templates_for(choice: str | Sequence[str], dataset: str | None = None) -> tuple[str, ...]:
    """The templates that `choice` means, each checked to have a place for the class name.

    `choice` may be a set's name ("imagenet7"), a method's name ("tda": its authors' templates for `dataset`), a
    template ("a sketch of a {}."), a file with one template per line or a JSON list, or several templates.
    """
    if not isinstance(choice, str):
        given = arguments.names("templates", choice)
        return tuple(_checked(template) for template in _not_empty(given, "The list of templates"))
    arguments.text("templates", choice)
    if choice in TEMPLATE_SETS:
        return TEMPLATE_SETS[choice]
    by_dataset = _of_method(choice)
    if by_dataset:
        uncorrupted = (dataset or "").partition("+")[0]
        if uncorrupted not in by_dataset:
            raise TrimtabError(
                f"{choice!r} means what its authors use on {', '.join(sorted(by_dataset))}, "
                f"but the data set is {dataset or 'not known'}; choose a set of templates: {', '.join(TEMPLATE_SETS)}."
            )
        return TEMPLATE_SETS[by_dataset[uncorrupted]]
    if "{" in choice:
        return (_checked(choice),)
    if (file := arguments.place("templates", choice)).is_file():
        return _from_file(file)
    known = ", ".join([*TEMPLATE_SETS, *(name for name in list_methods() if _of_method(name))])
    raise TrimtabError(f"{choice!r} is not a template set ({known}), not a file, and not a template with {{}} in it.")


def _of_method(name: str) -> Mapping[str, str]:
    """Data set -> the set of templates that a method's authors use; nothing for another name."""
    return method_class(name).templates if name in list_methods() else {}


def _from_file(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else [line.strip() for line in text.splitlines()]
    except ValueError:
        raise TrimtabError(f"{path} is not readable as {path.suffix or 'text'}; write one template per line.") from None
    if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
        raise TrimtabError(f"{path} must hold a JSON list of templates.")
    return tuple(_checked(template) for template in _not_empty([line for line in found if line], str(path)))


def _not_empty(templates: Sequence[str], where: str) -> Sequence[str]:
    if not templates:
        raise TrimtabError(f"{where} holds no templates; give at least one, such as 'a photo of a {{}}.'.")
    return templates


def _checked(template: str) -> str:
    rest = template
    for placeholder in PLACEHOLDERS:
        rest = rest.replace(placeholder, "")
    if rest == template or "{" in rest or "}" in rest:
        raise TrimtabError(f"The template {template!r} must mark the place of the class name with {{}} or {{c}}.")
    return template
