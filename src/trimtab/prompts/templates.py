"""Hand-written templates: named sets, and which set each method's authors use on each data set.

Read from the papers' tables and the released programs; where a paper and its program differ, the program counts
(except for MCP, whose table is followed).
"""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Final

from trimtab.errors import TrimtabError

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
        "car-colours": ("a photo of a {}.", "A {} featuring a wide range of color options for easy selection."),
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

_SPECIFIC: Final = {  # the seven sets on which every method agrees
    "dtd": "texture",
    "eurosat": "satellite",
    "fgvc-aircraft": "aircraft",
    "flowers102": "flower",
    "food101": "food",
    "oxford-pets": "pet",
    "ucf101": "action",
}
_SEVEN: Final = dict.fromkeys(("imagenet", "imagenet-a", "imagenet-v2"), "imagenet7")
_RENDITIONS: Final = ("imagenet-r", "imagenet-sketch")

_TDA: Final = {
    **_SPECIFIC,
    **_SEVEN,
    **dict.fromkeys(_RENDITIONS, "imagenet80"),
    **dict.fromkeys(("caltech101", "sun397", "stanford-cars"), "imagenet7"),
}
BY_METHOD: Final = MappingProxyType(
    {
        "mcp": {
            **_SPECIFIC,
            **_SEVEN,
            **dict.fromkeys(_RENDITIONS, "imagenet7"),
            **dict.fromkeys(("caltech101", "sun397", "stanford-cars"), "photo"),
        },
        "tda": _TDA,
        "boostadapter": _TDA,
        "dpe": {**_TDA, "stanford-cars": "car-colours"},
        "dmn": {**_TDA, **dict.fromkeys(_RENDITIONS, "imagenet7"), "stanford-cars": "car"},
    }
)


def templates_for(choice: str | Sequence[str], dataset: str | None = None) -> tuple[str, ...]:
    """The templates that `choice` means, each checked to have a place for the class name.

    `choice` may be a set's name ("imagenet7"), a method's name ("tda": its authors' templates for `dataset`), a
    template ("a sketch of a {}."), a file with one template a line or a JSON list, or several templates.
    """
    if not isinstance(choice, str):
        return tuple(_checked(template) for template in _not_empty(choice, "The list of templates"))
    if choice in TEMPLATE_SETS:
        return TEMPLATE_SETS[choice]
    if choice in BY_METHOD:
        by_dataset = BY_METHOD[choice]
        uncorrupted = (dataset or "").partition("+")[0]
        if uncorrupted not in by_dataset:
            raise TrimtabError(
                f"{choice!r} means what its authors use on {', '.join(sorted(by_dataset))}, "
                f"but the data set is {dataset or 'not known'}; choose a set of templates: {', '.join(TEMPLATE_SETS)}."
            )
        return TEMPLATE_SETS[by_dataset[uncorrupted]]
    if "{" in choice:
        return (_checked(choice),)
    if Path(choice).expanduser().is_file():
        return _from_file(Path(choice).expanduser())
    known = ", ".join([*TEMPLATE_SETS, *BY_METHOD])
    raise TrimtabError(f"{choice!r} is no template set ({known}), no file, and no template with {{}} in it.")


def _from_file(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else [line.strip() for line in text.splitlines()]
    except ValueError:
        raise TrimtabError(f"{path} is not readable as {path.suffix or 'text'}; write one template a line.") from None
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
