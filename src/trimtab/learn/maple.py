"""Learn MaPLe's prompts from a few labeled images of each class; an interrupted run continues bit for bit.

Epoch e takes the images in an order drawn from (seed, e), each as a random crop drawn from (seed, e, image), so where a
run was stopped does not matter.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from trimtab.data.base import ImageSet
from trimtab.encoders.maple.backbone import openai_towers
from trimtab.encoders.maple.encoder import class_tokens
from trimtab.encoders.maple.learner import WORDS, new_learner
from trimtab.encoders.maple.prompt_files import FORMAT, read_own, read_prompts, write_prompts
from trimtab.encoders.maple.towers import PromptedTowers
from trimtab.encoders.torch_encoder import TorchEncoder
from trimtab.errors import TrimtabError
from trimtab.files import FileLock
from trimtab.images.views import make_views
from trimtab.interrupts import HoldInterrupts
from trimtab.learn.coop import few_shots
from trimtab.learn.maple_training import MapleTraining
from trimtab.learn.sgd import Schedule

SECONDS_BETWEEN_SAVES = 60.0
Progress = Callable[[int, int, float], None]  # steps done, steps in all, the last loss


@dataclass(frozen=True)
class MapleSettings:
    """What decides the prompts besides encoder and images; the defaults are the released ones across data sets."""

    shots: int = 16
    vectors: int = 2
    depth: int = 3
    epochs: int = 2
    rate: float = 2.6e-3
    batch: int = 4
    seed: int = 1


def learn_maple(
    image_set: ImageSet,
    encoder: object,
    out: Path,
    settings: MapleSettings,
    *,
    progress: Progress | None = None,
) -> None:
    """Write prompts to `out`; started again after an interruption, it continues from `<out>.part`."""
    if settings.epochs < 1 or settings.batch < 1 or not settings.rate > 0:
        raise TrimtabError("Epochs and batch must be at least 1, and the rate above 0.")
    if not (image_set.labels >= 0).any():
        raise TrimtabError(f"{image_set.name} has no labels, and prompts are learned from labeled images.")
    chosen = few_shots(image_set.labels, image_set.class_names, settings.shots, settings.seed)
    training = _training(image_set, encoder, settings)
    assert isinstance(encoder, TorchEncoder)  # or it would have been refused
    about = {
        "format": FORMAT,
        "backbone": encoder.fingerprint,
        "encoder": encoder.name,
        "trained_on": f"{image_set.name} ({settings.shots} per class)",
        "settings": json.dumps(asdict(settings), sort_keys=True),
    }
    lock = FileLock(out)
    try:
        if not _is_done(out, about):
            with HoldInterrupts() as interrupts:  # a step is taken and counted, or neither
                _train(image_set, encoder, chosen, training, out, settings, about, interrupts, progress)
        _part(out).unlink(missing_ok=True)
    finally:
        lock.release(remove=True)


def _train(
    image_set: ImageSet,
    encoder: TorchEncoder,
    chosen: NDArray[np.int64],
    training: MapleTraining,
    out: Path,
    settings: MapleSettings,
    about: dict[str, str],
    interrupts: HoldInterrupts,
    progress: Progress | None,
) -> None:
    part, steps_per_epoch = _part(out), -(-len(chosen) // settings.batch)
    total, done = settings.epochs * steps_per_epoch, _resumed(part, training, about)
    schedule, saved = Schedule(settings.rate, settings.epochs), time.monotonic()
    try:
        while done < total:
            epoch, position = divmod(done, steps_per_epoch)
            order = chosen[np.random.default_rng([settings.seed, epoch]).permutation(len(chosen))]
            batch = order[position * settings.batch : (position + 1) * settings.batch]
            with interrupts.welcome():
                pixels = _crops(image_set, batch, encoder.input_size, settings.seed, epoch)
            scaled = encoder.image_tower.scaled(torch.from_numpy(pixels).to(encoder.model_device))
            labels = torch.from_numpy(image_set.labels[batch]).to(encoder.model_device)
            loss = training.step(scaled, labels, schedule.rate(epoch))
            done += 1
            if progress:
                progress(done, total, loss)
            if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                training.save(part, {**about, "done": str(done)})
                saved = time.monotonic()
    except KeyboardInterrupt:
        training.save(part, {**about, "done": str(done)})
        raise
    write_prompts(out, training.learner, about)


def _part(out: Path) -> Path:
    return out.with_name(f"{out.name}.part")


def _training(image_set: ImageSet, encoder: object, settings: MapleSettings) -> MapleTraining:
    towers = PromptedTowers(openai_towers(encoder))
    assert isinstance(encoder, TorchEncoder)
    tokens = torch.from_numpy(encoder.tokenize([WORDS])[0]).to(encoder.model_device)
    words = towers.clip.token_embedding(tokens[0, 1:-1]).detach()
    learner = new_learner(settings.vectors, settings.depth, words, towers.widths[1], settings.seed)
    towers.check(learner, encoder.name)
    classes = torch.from_numpy(class_tokens(encoder, learner, image_set.class_names)).to(encoder.model_device)
    return MapleTraining(towers, learner.to(encoder.model_device), classes, encoder.logit_scale)


def _crops(image_set: ImageSet, batch: NDArray[np.int64], size: int, seed: int, epoch: int) -> NDArray[np.uint8]:
    """One random crop of each image, mirrored half the time, other ones in each epoch."""
    drawn = int(np.random.default_rng([seed, epoch]).integers(2**32))
    return np.stack([make_views(image_set.load(int(i)), size, 2, drawn)[1] for i in batch])


def _is_done(out: Path, about: dict[str, str]) -> bool:
    """Whether `out` already holds these prompts; other ones are not overwritten."""
    if not out.exists():
        return False
    if out.suffix == ".safetensors" and dict(read_prompts(out).about) == about:
        return True
    raise TrimtabError(f"{out} exists and was not learned in this way; delete it, or choose another file.")


def _resumed(part: Path, training: MapleTraining, about: dict[str, str]) -> int:
    """The steps that an interrupted run has done, with its prompts and momenta put back; 0 if there is none."""
    if not part.exists():
        return 0
    try:
        tensors, header = read_own(part)
    except TrimtabError as error:
        raise TrimtabError(f"{error} Delete it to begin again.") from error
    if {name: value for name, value in header.items() if name != "done"} != about:
        raise TrimtabError(
            f"{part} is from a run with another encoder, other data or other settings; delete it, or repeat that run."
        )
    training.restore(tensors)
    return int(header["done"])
