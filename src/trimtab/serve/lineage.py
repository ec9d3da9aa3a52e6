"""Lineage: which images are part of what a stream knows now, after it has been put back or reset.

An image's id is the number of its epoch and its position in the stream, "2-517". Every reset, restore and upload begins
a new epoch; positions begin again where the state that was put back had stopped. So an id is never given twice, and the
list of epochs, each with the position that it begins at, tells whether an image is part of the state at hand.
"""

import re
from collections.abc import Sequence

from trimtab.serve.refusals import NoSuchImage

ID = re.compile(r"(\d{1,9})-(\d{1,15})")
MOST = 256  # epochs; images of older ones are known no more


class Lineage:
    """The epochs of the state at hand, and the position that each begins at."""

    def __init__(self) -> None:
        self.newest = 0  # of all epochs, also those that were left
        self.epochs: list[tuple[int, int]] = [(0, 0)]

    def id_of(self, position: int) -> str | None:
        """The id of an image that the state at hand has taken in, None if it is too long ago to tell."""
        epoch = next((epoch for epoch, first in reversed(self.epochs) if first <= position), None)
        return None if epoch is None else f"{epoch}-{position}"

    def position_of(self, image: str) -> int:
        """The position of an image, by its id."""
        match = ID.fullmatch(image) if isinstance(image, str) else None
        if match is None:
            raise NoSuchImage(f"{image!r} is no id of an image; ids are in the answers, such as '0-17'.")
        position = int(match[2])
        if self.id_of(position) != f"{int(match[1])}-{position}":
            raise NoSuchImage(f"Image {image} is not part of what the stream knows now: it was put back or reset.")
        return position

    def begin(self, position: int, before: Sequence[Sequence[int]] = ()) -> None:
        """A state was put back that has seen `position` images; `before` is the lineage that it had."""
        self.newest += 1
        kept = [(int(epoch), int(first)) for epoch, first in before if first < position]
        self.epochs = [*kept[1 - MOST :], (self.newest, position)]

    def to_note(self) -> dict[str, object]:
        """All of it, as JSON can hold it."""
        return {"newest": self.newest, "epochs": [list(epoch) for epoch in self.epochs]}

    def recall(self, note: dict[str, object]) -> None:
        """Know what `to_note` was made from."""
        self.newest = int(note["newest"])  # type: ignore[call-overload]
        self.epochs = [(int(epoch), int(first)) for epoch, first in note["epochs"]]  # type: ignore[attr-defined]
