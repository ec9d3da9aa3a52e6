"""The images below a folder, in an order that is the same on every machine."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from trimtab.errors import TrimtabError
from trimtab.files import say

IMAGE_SUFFIXES: Final = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm")
)
NOT_CLASSES: Final = frozenset(("__MACOSX", "__pycache__"))  # folders that unpacking and running leave behind


def natural(name: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """A sort key that puts "2" before "10" and "b" after "A"; exact spelling decides between equals."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part.casefold()) for part in parts if part), name


def is_image(path: Path) -> bool:
    """Whether the name ends like an image's, in whatever case."""
    return path.suffix.lower() in IMAGE_SUFFIXES


@dataclass
class Listing:
    """Lists folders and remembers what it passed over, to be said once at the end."""

    hidden: int = 0
    others: list[Path] = field(default_factory=list)

    def content(self, folder: Path) -> tuple[list[Path], list[Path]]:
        """The folders and the images directly below, each in natural order."""
        try:
            everything = list(folder.iterdir())
        except OSError as error:
            raise TrimtabError(f"The folder {folder} cannot be listed: {error.strerror}.") from None
        seen = [path for path in everything if not path.name.startswith(".") and path.name not in NOT_CLASSES]
        self.hidden += len(everything) - len(seen)
        folders: list[Path] = []
        images: list[Path] = []
        for path in sorted(seen, key=lambda path: natural(path.name)):
            if path.is_dir():
                folders.append(path)
            else:
                (images if is_image(path) else self.others).append(path)
        return folders, images

    def images(self, folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
        """All image files below: a folder's own before those of its subfolders. `above`: the folders we are in."""
        real = folder.resolve()
        if real in above:  # a link that leads back
            return
        folders, images = self.content(folder)
        yield from images
        for inner in folders:
            yield from self.images(inner, (*above, real))

    def say_what_was_skipped(self, folder: Path) -> None:
        """One sentence about files that are no images, if there were any."""
        skipped = [f"{len(self.others)} that are no images (such as {self.others[0].name})"] if self.others else []
        skipped += [f"{self.hidden} hidden"] if self.hidden else []
        if skipped:
            say(f"Skipped files in {folder}: {' and '.join(skipped)}.")
