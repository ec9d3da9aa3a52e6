"""Guard: which guards are on, and how strict they are. One frozen record; every guard can be switched off alone."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from trimtab.engine.parameters import check, docstring, number, slots, switch
from trimtab.errors import TrimtabError


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What stands between a stream and its method. 0 switches a guard off."""

    duplicates: float = number(
        0.03,
        least=0,
        most=1,
        about="An image is a near-duplicate if its distance to one of the last, 1 - cosine, is below this share of its "
        "mean distance to them; 0: off.",
    )
    gap: float = number(
        0.8,
        least=0,
        about="Nearness to its best text, over the mean nearness to the last images, from which an image is not "
        "learned; 0: off.",
    )
    strange: float = number(
        4.0,
        least=0,
        about="Deviations above the stream's median at which an image is too close to the text to be learned; three "
        "quarters of them where it is compared with the images next to it; 0: off.",
    )
    floor: float = number(
        0.5,
        least=0,
        about="The least deviation, as a share of the spread of one image's text cosines over the classes.",
    )
    quota: float = number(
        0.25,
        least=0,
        most=1,
        about="Share of the last 256 images without other objections that may be learned from one named source; where "
        "all came from fewer sources, an equal share; 0: off.",
    )
    contradicted: float = number(
        3,
        least=0,
        about="How many of the last images must lie near an item and show another class for it to lose its place; "
        "0: off.",
    )
    start_over: float = number(
        0.25,
        least=0,
        most=1,
        about="Share of the images learned that would not be learned now, from which everything learned is forgotten: "
        "the stream began among crafted images. Fewer lose their places; 0: off.",
    )

    unknown: bool = switch(
        False, about="Whether an image may be said to show none of the classes; it is then not learned."
    )
    fall_back: bool = switch(
        True,
        about="Whether the text answers where runs of classes speak against an adapted answer, and altogether while "
        "they speak against most.",
    )
    snapshots: int = slots(
        0,
        about="Good states to keep, each as large as what is learned; when the text has had to answer altogether for "
        "long, the last of them is put back, then the one before; 0: none.",
    )

    def __post_init__(self) -> None:
        check(self)

    def parameters(self) -> dict[str, Any]:
        """Every switch by its name."""
        return asdict(self)


Guard.__doc__ = docstring(Guard.__doc__ or "", {declared.name: declared for declared in fields(Guard)})


def make_guard(path: Path, parameters: dict[str, Any]) -> Guard:
    """The guard that a state was saved with."""
    try:
        return Guard(**parameters)
    except TypeError as error:
        raise TrimtabError(f"{path} was saved with a guard that this trimtab does not know: {error}.") from error
