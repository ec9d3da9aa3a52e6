"""Thumbnails: small pictures of images, for people to look at. Off unless asked for, bounded, and deletable.

They are no part of what is learned: a kill may lose the last ones, and a full disk means that there are none.
"""

import io
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from trimtab.files import PART
from trimtab.serve.lineage import ID

SIDE = 128
QUALITY = 80
MOST = 2000  # kept per stream, and of those that the caches hold as many again
MOST_BYTES = 64 << 10  # of one
ENDING = ".jpg"


def make_thumbnail(picture: bytes) -> bytes:
    """A small JPEG of an image file, upright; one that cannot be read is refused."""
    from PIL import Image

    from trimtab.images.decode import decode

    small = Image.fromarray(decode(picture, enough=2 * SIDE))
    small.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


class Thumbnails:
    """The thumbnails in a folder, by the image's id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: dict[str, None] | None = None  # ids, the oldest first; read when first needed

    def put(self, image: str, picture: bytes, held: Callable[[], Collection[str]]) -> None:
        """Keep a picture; where there are too many, the oldest go that no cache holds."""
        if len(picture) > MOST_BYTES:
            return
        kept = self._ids()
        with suppress(OSError):
            scratch = self.folder / f".{image}{PART}"
            scratch.write_bytes(picture)  # not flushed: the stream would wait
            scratch.replace(self.folder / f"{image}{ENDING}")
            kept[image] = None
        if len(kept) > MOST + MOST // 8:
            self._let_go(kept, set(held()))

    def get(self, image: str) -> bytes | None:
        """A picture, if it is kept."""
        if not isinstance(image, str) or ID.fullmatch(image) is None:
            return None
        try:
            return (self.folder / f"{image}{ENDING}").read_bytes()
        except OSError:
            return None

    def drop(self) -> int:
        """Delete all, also copies that somebody keeps in a folder below; how many there were."""
        paths = list(self.folder.rglob(f"[!.]*{ENDING}"))
        for path in paths:
            path.unlink(missing_ok=True)
        self._kept = {}
        return len(paths)

    def _ids(self) -> dict[str, None]:
        if self._kept is None:
            paths = sorted(self.folder.glob(f"[!.]*{ENDING}"), key=lambda path: path.stat().st_mtime_ns)
            self._kept = {path.stem: None for path in paths}
        return self._kept

    def _let_go(self, kept: dict[str, None], held: Collection[str]) -> None:
        older = list(kept)[:-MOST]
        free = [image for image in older if image not in held]
        if len(older) - len(free) > MOST:
            free = older
        for image in free:
            (self.folder / f"{image}{ENDING}").unlink(missing_ok=True)
            del kept[image]
