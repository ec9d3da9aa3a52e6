"""A diffusion pipeline that draws variations of an image, from a folder as diffusers saves it.

DiffTPT's authors draw with an image-variation pipeline (Stable Diffusion seen through CLIP's image tower). A pipeline
that goes from an image and words to an image serves too, and one from words alone is turned into such a one.
"""

import hashlib
import inspect
import json
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from trimtab.encoders.base import first_line
from trimtab.encoders.damage import refuse_damaged
from trimtab.encoders.torch_encoder import DTYPES, add_weights, usable_device
from trimtab.errors import TrimtabError
from trimtab.images.views import resize_shorter_and_crop

INDEX = "model_index.json"  # what makes a folder a pipeline


@dataclass(frozen=True)
class Drawing:
    """How a variation is drawn; `strength` and `words` are for pipelines that take them, and None is their default."""

    steps: int = 50
    guidance: float = 3.0  # as DiffTPT's authors draw
    strength: float | None = None  # how much of the image is given up, from 0 to 1
    words: str | None = None


class VariationPipeline:
    """Draws images of an image. The noise comes from the CPU, so that a seed means the same on every device."""

    def __init__(
        self, folder: Path | str, drawing: Drawing | None = None, *, device: str = "cpu", precision: str = "fp32"
    ) -> None:
        self.folder, self.drawing = Path(folder).expanduser(), drawing or Drawing()
        self._pipeline = _loaded(self.folder).to(usable_device(device), DTYPES[precision])
        self._pipeline.set_progress_bar_config(disable=True)
        self._takes = _parameters(self._pipeline)
        for name, given in (("strength", self.drawing.strength), ("prompt", self.drawing.words)):
            if given is not None and name not in self._takes:
                option = {"strength": "a strength", "prompt": "words"}[name]
                raise TrimtabError(
                    f"{self.folder} is a {self.kind}, which draws from the image alone; leave out {option}."
                )
        self._precision = precision

    @property
    def kind(self) -> str:
        """The class of the pipeline."""
        return type(self._pipeline).__name__

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a drawing depends on besides the image, the seed and the `Drawing`."""
        digest = hashlib.sha256(f"{self.kind} {self._precision}".encode())
        for name, part in sorted(self._pipeline.components.items()):
            digest.update(name.encode())
            if isinstance(part, torch.nn.Module):
                add_weights(digest, part)
            elif hasattr(part, "config"):  # a scheduler
                digest.update(json.dumps(dict(part.config), sort_keys=True, default=str).encode())
        return digest.hexdigest()

    def draw(self, image: NDArray[np.uint8], seed: int) -> NDArray[np.uint8] | None:
        """(H, W, 3) bytes -> a variation of it; None if the pipeline's safety checker has blacked it out."""
        options: dict[str, Any] = {"num_inference_steps": self.drawing.steps, "guidance_scale": self.drawing.guidance}
        if "prompt" in self._takes:  # such a pipeline works on the pixels themselves, in the size that it knows
            options["prompt"] = self.drawing.words or ""
            image = resize_shorter_and_crop(image, self._side)
        if self.drawing.strength is not None:
            options["strength"] = self.drawing.strength
        noise = torch.Generator("cpu").manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as above
            found = self._pipeline(image=Image.fromarray(image), generator=noise, output_type="np", **options)
        if (getattr(found, "nsfw_content_detected", None) or [False])[0]:
            return None
        pixels = np.asarray(found.images[0], np.float32)
        if not np.isfinite(pixels).all():
            raise TrimtabError(
                f"{self.folder} drew pixels that are no numbers; use --precision fp32, or less --guidance."
            )
        return (255 * pixels).round().astype(np.uint8)

    @property
    def _side(self) -> int:
        scale = 2 ** (len(self._pipeline.vae.config.block_out_channels) - 1)
        return int(self._pipeline.unet.config.sample_size) * scale


def _loaded(folder: Path) -> Any:
    """The pipeline, one that takes images, or one sentence on what is wrong with the folder."""
    from diffusers.utils import logging
    from transformers.utils import logging as logging_of_parts

    if not folder.is_dir():
        raise TrimtabError(f"There is no folder {folder}; give a folder that holds a diffusion pipeline.")
    if not (folder / INDEX).is_file():
        raise TrimtabError(f"{folder} is not a diffusion pipeline: it has no {INDEX}, which diffusers writes.")
    for module in (logging, logging_of_parts):  # before diffusers loads its pipelines, which is told at length
        module.set_verbosity_error()
        module.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of settings that diffusers means to rename
            pipeline = diffusers.DiffusionPipeline.from_pretrained(str(folder), local_files_only=True)
            if not _draws_from_images(pipeline):
                pipeline = diffusers.AutoPipelineForImage2Image.from_pipe(pipeline)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # diffusers, transformers and safetensors each raise kinds of their own
        for part in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
            refuse_damaged(part)
        raise TrimtabError(
            f"No pipeline that varies images could be made of {folder}; diffusers says: {first_line(error)}"
        ) from error
    if "mask_image" in _parameters(pipeline):
        raise TrimtabError(f"{folder} is a {type(pipeline).__name__}, which needs a mask; use one that varies images.")
    return pipeline


def _draws_from_images(pipeline: Any) -> bool:
    return {"image", "generator"} <= _parameters(pipeline)


def _parameters(pipeline: Any) -> set[str]:
    return set(inspect.signature(type(pipeline).__call__).parameters)
