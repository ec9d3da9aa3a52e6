"""How a store is begun: in an empty folder, or in one that holds the same store, finished or not."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.features.layout import Layout, first_layout, layout_for
from trimtab.features.manifest import MANIFEST, TEXT, UNFINISHED, Manifest, StoreInfo, read_manifest, write_manifest
from trimtab.features.shard import as_npy
from trimtab.storage import Folder
from trimtab.task import Task


@dataclass(frozen=True)
class Begun:
    """A store that holds, or shall hold, certain features."""

    layout: Layout
    text_sha256: str
    finished: bool


def begin(folder: Folder, info: StoreInfo, text: NDArray[np.float32], shard_images: int | None = None) -> Begun:
    """Write down what a folder shall hold; refuse one that holds, or shall hold, anything else.

    Several machines may begin the same store at once: they write the same bytes.
    """
    check_text(info, text)
    content = as_npy(np.ascontiguousarray(text, dtype=np.float32))
    text_sha256 = hashlib.sha256(content).hexdigest()
    inside = folder.sizes()
    for name in (MANIFEST, UNFINISHED):
        if name in inside:
            there = read_manifest(folder, name)
            _check_same(folder, there, info, text_sha256, shard_images)
            per_shard = there.images_per_shard  # a store of version 1 stays one, however large it is
            layout = first_layout(info.views) if per_shard is None else Layout(2, per_shard)
            return Begun(layout, text_sha256, name == MANIFEST)
    foreign = sorted(name for name in inside if not _is_ours(name))
    if foreign:
        raise TrimtabError(
            f"{folder} is not empty and not a feature store (it holds {foreign[0]}); choose another folder."
        )
    layout = layout_for(info, shard_images)
    folder.write(TEXT, content)
    write_manifest(folder, UNFINISHED, Manifest(info, (), (), text_sha256, layout.stated))
    return Begun(layout, text_sha256, finished=False)


def check_text(info: StoreInfo, text: NDArray[np.float32]) -> None:
    """Refuse text prototypes that do not fit, before hours of work."""
    Task(info.class_names, text, info.logit_scale)
    if text.shape[1] != info.dim:
        raise TrimtabError(f"The text prototypes have {text.shape[1]} dimensions, the image features {info.dim}.")


def _check_same(folder: Folder, there: Manifest, info: StoreInfo, text_sha256: str, shard_images: int | None) -> None:
    dropped = {name for name, _ in there.skipped}
    here = info.without([i for i, name in enumerate(info.ids) if name in dropped]) if dropped else info
    differences = there.info.differences(here)
    explained = ("class names", "encoder fingerprint", "prompts")  # by any of which the texts differ, too
    if there.text_sha256 != text_sha256 and not any(found.startswith(explained) for found in differences):
        differences.append("text prototypes")
    if shard_images is not None and shard_images != there.images_per_shard:
        differences.append(f"images per shard ({there.images_per_shard or 'by size'} there, {shard_images} here)")
    if differences:
        raise TrimtabError(
            f"{folder} already holds other features: it differs in {', '.join(differences)}; "
            "choose another folder, or delete it first."
        )


def _is_ours(name: str) -> bool:
    """What a kill before unfinished.json may leave behind."""
    return name == TEXT or name.startswith(".")
