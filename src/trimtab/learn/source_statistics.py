"""Make the source statistics that PromptAlign needs: one pass over the images, continued if it was stopped."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from trimtab.data.base import ImageSet, drawn
from trimtab.encoders.maple.encoder import MapleEncoder
from trimtab.encoders.maple.statistics import RunningStatistics
from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.images.loader import ViewLoader
from trimtab.source_stats import SourceStats

SECONDS_BETWEEN_SAVES = 60.0
Progress = Callable[[int, int], None]  # images done, images in all


def fit_source_stats(
    image_set: ImageSet,
    encoder: object,
    out: Path,
    *,
    blocks: int = 3,
    limit: int | None = None,
    seed: int = 0,
    batch: int = 32,
    progress: Progress | None = None,
) -> SourceStats:
    """Mean and variance of the tokens that enter the first `blocks` blocks, over the plain views of all images.

    Labels are not looked at. `limit` draws that many images by the seed. Images that cannot be read are left out.
    """
    if not isinstance(encoder, MapleEncoder):
        name = getattr(encoder, "name", "the encoder")
        raise TrimtabError(f"Source statistics are of an encoder maple:<file>+<encoder>, not of {name}.")
    depth = len(encoder.towers.visual.transformer.resblocks)
    if not 1 <= blocks <= depth:
        raise TrimtabError(f"--blocks must be from 1 to {depth}, the blocks of {encoder.name}, not {blocks}.")
    chosen = drawn(image_set, limit, seed)
    about = {
        "encoder": encoder.fingerprint,
        "data": image_set.name,
        "images": str(len(chosen)),
        "seed": str(seed),
        "blocks": str(blocks),
    }
    part = out.with_name(f"{out.name}.part")
    statistics, done = _resumed(part, about)
    saved = time.monotonic()
    loader = ViewLoader(image_set.load, chosen[done:].tolist(), size=encoder.input_size, batch=batch)
    try:
        with closing(iter(loader)) as batches:
            for loaded in batches:
                if len(loaded.indices):
                    statistics.add(_tokens(encoder, loaded.pixels[:, 0], blocks))
                done += len(loaded.indices) + len(loaded.unreadable)
                if progress:
                    progress(done, len(chosen))
                if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    _save(part, statistics, done, about)
                    saved = time.monotonic()
    except KeyboardInterrupt:
        _save(part, statistics, done, about)
        raise
    if statistics.images == 0:
        raise TrimtabError(f"None of the images of {image_set.name} could be read.")
    found = SourceStats(
        statistics.mean32,
        statistics.variance32,
        encoder.backbone_fingerprint,
        encoder.prompts_fingerprint,
        statistics.images,
        image_set.name,
    )
    write_whole(out, found.content())
    part.unlink(missing_ok=True)
    return found


def _tokens(encoder: MapleEncoder, pixels: NDArray[np.uint8], blocks: int) -> NDArray[np.float32]:
    with torch.inference_mode():
        scaled = encoder.image_tower.scaled(torch.from_numpy(pixels).to(encoder.model_device))
        tokens = encoder.towers.entering_tokens(scaled, encoder.learner().vision, blocks)
    found: NDArray[np.float32] = tokens.cpu().numpy()
    return found


def _save(part: Path, statistics: RunningStatistics, done: int, about: dict[str, str]) -> None:
    from safetensors.numpy import save

    arrays = {"mean": np.ascontiguousarray(statistics.mean), "squares": np.ascontiguousarray(statistics.squares)}
    write_whole(part, save(arrays, {**about, "done": str(done), "counted": str(statistics.images)}))


def _resumed(part: Path, about: dict[str, str]) -> tuple[RunningStatistics, int]:
    """What an interrupted run has summed up, and how many images it has seen."""
    from safetensors import SafetensorError, safe_open

    statistics = RunningStatistics()
    if not part.exists():
        return statistics, 0
    try:
        with safe_open(part, "np") as opened:
            header = opened.metadata() or {}
            statistics.mean, statistics.squares = opened.get_tensor("mean"), opened.get_tensor("squares")
    except SafetensorError as error:
        raise TrimtabError(f"{part} is damaged ({error}); delete it to begin again.") from error
    if {name: header.get(name) for name in about} != about:
        raise TrimtabError(f"{part} is from a run with another encoder or other images; delete it to begin again.")
    statistics.images = int(header["counted"])
    return statistics, int(header["done"])
