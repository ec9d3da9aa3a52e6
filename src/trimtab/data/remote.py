"""Images behind a URL that fsspec knows: s3://bucket/photos, gs://..., memory://..."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import UNLABELED, ImageSet, decoded_bytes, natural
from trimtab.data.folder import IMAGE_SUFFIXES, NOT_CLASSES, image_folder
from trimtab.errors import TrimtabError
from trimtab.storage import LocalFolder, RemoteFolder, folder_at


@dataclass(frozen=True, eq=False)
class UrlImages:
    """Images behind a URL, fetched and decoded when they are asked for."""

    folder: RemoteFolder
    names: Sequence[str]
    enough: int | None = None  # as in `trimtab.images.decode`

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) RGB bytes."""
        name = self.names[index]
        try:
            content = self.folder.read(name)
        except FileNotFoundError:
            raise TrimtabError(f"{self.folder}/{name} is not there.") from None
        return decoded_bytes(content, f"{self.folder}/{name}", self.enough)

    def part(self, indices: Sequence[int]) -> "UrlImages":
        """Some of them, numbered from 0: what another machine needs."""
        return replace(self, names=[self.names[index] for index in indices])


def image_folder_at(url: str) -> ImageSet:
    """The images below a URL: each subfolder is a class; without subfolders the images are unlabeled."""
    folder = folder_at("url", url)
    if isinstance(folder, LocalFolder):
        return image_folder(folder.path)
    assert isinstance(folder, RemoteFolder)
    paths = [PurePosixPath(name) for name in folder.below()]
    images = [
        path
        for path in paths
        if path.suffix.lower() in IMAGE_SUFFIXES
        and not any(part.startswith(".") or part in NOT_CLASSES for part in path.parts)
    ]
    if not images:
        raise TrimtabError(f"There are no images below {url}.")
    inside = [path for path in images if len(path.parts) > 1]
    if inside and len(inside) < len(images):
        stray = next(path for path in images if len(path.parts) == 1)
        raise TrimtabError(f"{url} holds class folders and beside them the image {stray}; move it into one of them.")
    ordered = sorted(images, key=lambda path: [natural(part) for part in path.parts])
    classes = tuple(dict.fromkeys(path.parts[0] for path in ordered)) if inside else ()
    numbers = {name: number for number, name in enumerate(classes)}
    labels = [numbers.get(path.parts[0], UNLABELED) for path in ordered]
    return ImageSet(
        name=str(folder).rstrip("/").rsplit("/", 1)[-1],
        class_names=classes,
        labels=np.array(labels, np.int64),
        ids=[path.as_posix() for path in ordered],
        load=UrlImages(folder, [path.as_posix() for path in ordered]),
    )
