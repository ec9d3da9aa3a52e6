"""Draw variations of every image of a set into a folder, as `<stem>_<i>.<ext>`: DiffTPT's generated views.

Drawing takes seconds to minutes a picture, so nothing is drawn twice: every file appears whole, and a run that is
started again draws what is missing. The seed of a picture depends on the run's seed, the image's id and i alone, not on
what was drawn before it.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trimtab import arguments
from trimtab.data.base import ImageSet, drawn
from trimtab.errors import TrimtabError
from trimtab.files import FolderLock, sweep, write_whole
from trimtab.images.generated import stem_of

Pixels = NDArray[np.uint8]
Progress = Callable[[int, int], None]  # variations done, variations in all
SETTINGS = "variations.json"
FORMATS: dict[str, dict[str, Any]] = {"png": {"format": "PNG"}, "jpg": {"format": "JPEG", "quality": 95}}
SEED_RULE = "of picture i of an image: the first 8 bytes of SHA-256('<seed>/<id>/<i>'), big-endian, without the top bit"


class Variations(Protocol):
    """What draws: `trimtab.encoders.diffusion.VariationPipeline`, or anything like it."""

    drawing: Any  # how it draws: a dataclass

    @property
    def kind(self) -> str:
        """The kind of the pipeline, for people."""

    @property
    def fingerprint(self) -> str:
        """A hash of the pipeline."""

    def draw(self, image: Pixels, seed: int) -> Pixels | None:
        """A variation of an image; None if the pipeline itself withholds it."""


@dataclass
class Generated:
    """What a run has come to: pictures drawn now, pictures there before, and what is missing, with the reason."""

    drawn: int = 0
    there_before: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)

    @property
    def done(self) -> int:
        """The pictures that the folder holds."""
        return self.drawn + self.there_before


def generate_variations(
    image_set: ImageSet,
    pipeline: Variations,
    out: Path | str,
    *,
    views: int = 63,
    seed: int = 0,
    extension: str = "png",
    limit: int | None = None,
    progress: Progress | None = None,
) -> Generated:
    """Draw `views` variations of every image, or of the `limit` images that `encode_images` takes with this seed.

    The folder notes how its pictures were drawn, and refuses others; more views may be added later. Images that cannot
    be read, and pictures that the pipeline withholds, are left out and named.
    """
    arguments.whole("views", views, least=1)
    arguments.whole("seed", seed, least=0)
    arguments.word("extension", extension, tuple(FORMATS))
    chosen = drawn(image_set, limit, seed).tolist()
    stems = _stems([str(image_set.ids[index]) for index in chosen])
    folder = arguments.place("out", out)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        _note_settings(folder / SETTINGS, _settings(pipeline, image_set.name, seed, extension))
        for place in {(folder / stem).parent for stem in stems}:
            place.mkdir(parents=True, exist_ok=True)
            sweep(place)
        made, total = Generated(), len(chosen) * views
        for index, stem in zip(chosen, stems, strict=True):
            files = {number: folder / f"{stem}_{number}.{extension}" for number in range(views)}
            missing = {number: file for number, file in files.items() if not file.is_file()}
            made.there_before += views - len(missing)
            for file, picture in _drawn_of(image_set, index, pipeline, seed, missing, made):
                content = io.BytesIO()
                Image.fromarray(picture).save(content, **FORMATS[extension])
                write_whole(file, content.getvalue())
                made.drawn += 1
                if progress:
                    progress(made.done, total)
        return made
    finally:
        lock.release(remove=True)


def seed_of(seed: int, identity: str, number: int) -> int:
    """The seed of one picture, by SEED_RULE."""
    digest = hashlib.sha256(f"{seed}/{identity}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") & (2**63 - 1)


def _drawn_of(
    image_set: ImageSet, index: int, pipeline: Variations, seed: int, missing: dict[int, Path], made: Generated
) -> Iterator[tuple[Path, Pixels]]:
    """The missing pictures of one image, one by one; what cannot be had is noted in `made`."""
    if not missing:
        return
    identity = str(image_set.ids[index])
    try:
        image = image_set.load(index)
    except TrimtabError as error:
        made.left_out.append((identity, str(error)))
        return
    for number, file in missing.items():
        picture = pipeline.draw(image, seed_of(seed, identity, number))
        if picture is None:
            made.left_out.append((identity, f"{file.name} was blacked out by the pipeline's own safety checker"))
        else:
            yield file, picture


def _stems(identities: Sequence[str]) -> list[PurePosixPath]:
    """What the pictures of each image are called, below the folder; no two images may share it."""
    owners: dict[PurePosixPath, str] = {}
    for identity in identities:
        stem = stem_of(identity)
        if stem.is_absolute() or ".." in stem.parts:
            raise TrimtabError(f"{identity} lies outside its data set, so its variations have no place in the folder.")
        other = owners.setdefault(stem, identity)
        if other != identity:
            raise TrimtabError(
                f"The variations of {other} and {identity} would have the same names; rename one of them."
            )
    return list(owners)


def _settings(pipeline: Variations, images: str, seed: int, extension: str) -> dict[str, Any]:
    """All that decides a picture besides the image and its number."""
    return {
        "images": images,
        "pipeline": pipeline.kind,
        "pipeline_fingerprint": pipeline.fingerprint,
        **asdict(pipeline.drawing),
        "seed": seed,
        "seed_rule": SEED_RULE,
        "extension": extension,
    }


def _note_settings(file: Path, settings: dict[str, Any]) -> None:
    """Write them down in a new folder; in an old one, refuse others than those of its pictures."""
    folder = file.parent
    if not file.is_file():
        if any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise TrimtabError(f"{folder} holds files that trimtab did not draw; give an empty folder with -o.")
        write_whole(file, (json.dumps(settings, indent=1) + "\n").encode())
        return
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
        different = next((name for name in settings if before[name] != settings[name]), None)
    except (ValueError, KeyError, TypeError) as error:
        raise TrimtabError(f"{file} is damaged; draw into another folder, or delete this one.") from error
    if different:
        raise TrimtabError(
            f"{folder} holds variations with {different.replace('_', ' ')} {arguments.shown(before[different])}, "
            f"not {arguments.shown(settings[different])}; draw into another folder."
        )
