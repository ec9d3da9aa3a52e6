"""Views that a generator made of an image: read from a folder, or made by any function of yours.

DiffTPT looks at an image's crops and at variations of it that a diffusion model has drawn beforehand. They are simply
further views: after the plain view and the crops come the generated ones, each shown as the plain view is.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.images.decode import decode

Pixels = NDArray[np.uint8]
ViewSource = Callable[[str, Pixels], Sequence[Pixels]]  # (an image's id, the image) -> further images of it

NUMBERED = re.compile(r"(?P<stem>.+)_(?P<number>\d+)\.(png|jpe?g|webp|bmp)", re.IGNORECASE)


class GeneratedFolder:
    """`<stem>_<i>.<ext>` for the image `<stem>.<ext>`, in a subfolder of the same name or outside; lowest i first."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder).expanduser()
        if not self._folder.is_dir():
            raise TrimtabError(f"{self._folder} is not a folder of generated views.")
        found: dict[PurePosixPath, list[tuple[int, Path]]] = defaultdict(list)
        for path in sorted(self._folder.rglob("*")):
            named = NUMBERED.fullmatch(path.name)
            if named and path.is_file():
                place = PurePosixPath(path.relative_to(self._folder).parent.as_posix())
                found[place / named["stem"]].append((int(named["number"]), path))
        if not found:
            raise TrimtabError(f"{self._folder} holds no generated views; they are named <stem>_<i>.<ext>.")
        self._paths = {stem: [path for _, path in sorted(files)] for stem, files in found.items()}

    def __call__(self, identity: str, image: Pixels) -> Sequence[Pixels]:  # noqa: ARG002
        """The generated views of the image with this id; none is no error here."""
        stem = stem_of(identity)
        paths = self._paths.get(stem) or self._paths.get(PurePosixPath(stem.name)) or []
        return [decode(path) for path in paths]

    def __str__(self) -> str:
        return self._folder.name


def stem_of(identity: str) -> PurePosixPath:
    """An image's id without the ending of its file: what the names of its generated views begin with."""
    whole = PurePosixPath(identity.replace("\\", "/"))
    return whole.with_suffix("") if whole.suffix else whole


def further_views(source: ViewSource, identity: str, image: Pixels, count: int) -> Sequence[Pixels]:
    """The first `count` images that a source has for an image, or one sentence that says that it has fewer."""
    found = source(identity, image)[:count]
    if len(found) < count:
        raise TrimtabError(f"{identity} has {len(found)} generated views, but {count} are asked for.")
    return found
