"""From a data set to a learned context: draw the shots, encode them once, learn, and survive an interrupt.

Beside the file that is wanted stands, while it is being learned, `<file>.unfinished` (context, velocity and epoch), and
for images `<file>.features`, a feature store of the shots. Both go when the file is there.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from trimtab.data.base import ImageSet
from trimtab.encoders.base import Encoder
from trimtab.encoders.prompted import text_tower
from trimtab.encoders.prompted.context_files import ContextFile, read_context, save_context
from trimtab.engine.arrays import Array, Doubles
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.features.encode import encode_images
from trimtab.files import FileLock, write_whole
from trimtab.learn.coop import CoOp, LearningStep, few_shots, learn_coop, start_context

SECONDS_BETWEEN_SAVES = 20.0
Progress = Callable[[int, int, str], None]  # epochs done, epochs in all, a few words


@dataclass(frozen=True)
class Shape:
    """What kind of context is learned: one that starts from `words`, or from `length` random vectors."""

    words: str = ""
    length: int = 16
    position: str = "end"
    class_specific: bool = False


def learn_from_images(
    recipe: CoOp,
    shape: Shape,
    images: ImageSet,
    encoder: Encoder,
    out: Path,
    *,
    views: int = 1,
    progress: Progress | None = None,
) -> ContextFile:
    """Draw the shots of every class, encode them once, and learn; see `learn_from_store`."""
    if not images.class_names or not (np.asarray(images.labels) >= 0).any():
        raise TrimtabError(f"{images.name} has no labels, and a context is learned from labeled images.")
    chosen = few_shots(np.asarray(images.labels), images.class_names, recipe.shots, recipe.seed)
    drawn = _only(images, chosen)
    digest = _digest(recipe, shape, drawn.class_names, drawn.ids, f"{views} views by {encoder.fingerprint}")
    folder = out.with_name(f"{out.name}.features")
    with _learning(out, digest) as place:
        if place.learned is None:
            store = encode_images(drawn, encoder, out=folder, views=views, seed=recipe.seed, dtype="float32")
            place.learned = _learn(recipe, shape, store, encoder, place, progress)
        shutil.rmtree(folder, ignore_errors=True)
        return place.learned


def learn_from_store(
    recipe: CoOp, shape: Shape, store: FeatureStore, encoder: Encoder, out: Path, *, progress: Progress | None = None
) -> ContextFile:
    """Learn a context from some labeled images of a feature store and write it to `out`.

    If it is stopped, the same call continues after the last epoch that was saved, with the same numbers. If it has
    ended before, the same call only reads the file.
    """
    rows = few_shots(store.labels, store.class_names, recipe.shots, recipe.seed)
    digest = _digest(recipe, shape, store.class_names, [store.ids[row] for row in rows], store.fingerprint)
    with _learning(out, digest) as place:
        if place.learned is None:
            place.learned = _learn(recipe, shape, store, encoder, place, progress)
        return place.learned


def _learn(
    recipe: CoOp, shape: Shape, store: FeatureStore, encoder: Encoder, place: "_Place", progress: Progress | None
) -> ContextFile:
    store = FeatureStore.open(store.path, encoder=encoder)
    rows = few_shots(store.labels, store.class_names, recipe.shots, recipe.seed)
    tower, start = _tower(shape, encoder, store.class_names, recipe.seed)
    unfinished = _Unfinished(place.unfinished, place.digest)
    features = store.rows(rows).astype(np.float32)
    steps = learn_coop(
        recipe, tower, features, store.labels[rows], encoder.logit_scale, start=start, resumed=unfinished.read()
    )
    context = _followed(steps, recipe.schedule.epochs, unfinished, progress)
    return save_context(
        place.out,
        context,
        position=shape.position,
        encoder=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        trained_on=f"{store.info.dataset} ({recipe.shots} per class)",
        words=shape.words,
        class_names=store.class_names if shape.class_specific else (),
        learned_as=place.digest,
    )


@dataclass
class _Place:
    """Where a context is learned: its file, what stands beside it meanwhile, and the outcome, once there is one."""

    out: Path
    digest: str
    learned: ContextFile | None = None

    @property
    def unfinished(self) -> Path:
        return self.out.with_name(f"{self.out.name}.unfinished")


@contextmanager
def _learning(out: Path, digest: str) -> Iterator[_Place]:
    """Be the only one who learns into this file, and leave nothing beside it once it is there.

    A kill may come between the file and the tidying; the next call does the rest.
    """
    if not out.parent.is_dir():
        raise TrimtabError(f"There is no folder {out.parent}; create it, or give another name with --out.")
    place, lock = _Place(out, digest), FileLock(out)
    try:
        if out.exists():
            with suppress(TrimtabError):  # it may be anything
                place.learned = read_context(out)
            if place.learned is None or place.learned.learned_as != digest:
                raise TrimtabError(
                    f"{out} is already there, and not what this command makes; delete it, or give another name with "
                    "--out."
                )
        yield place
        place.unfinished.unlink(missing_ok=True)
    finally:
        lock.release(remove=True)


def _tower(shape: Shape, encoder: Encoder, class_names: Sequence[str], seed: int) -> tuple[Any, Array]:
    """The text tower of the classes, and the context that learning starts from."""
    words = text_tower(encoder, class_names, words=shape.words or "a photo of a", position=shape.position)
    if shape.words:
        repeated = np.broadcast_to(words.start, (len(class_names), *words.start.shape))
        start = np.ascontiguousarray(repeated) if shape.class_specific else words.start
    else:
        if shape.length < 1:
            raise TrimtabError(f"A context needs at least one vector, not {shape.length}.")
        start = start_context(words, shape.length, shape.class_specific, len(class_names), seed)
    return text_tower(encoder, class_names, position=shape.position, context=start), start


def _followed(
    steps: Iterator[LearningStep], epochs: int, unfinished: "_Unfinished", progress: Progress | None
) -> Array:
    """The context after all steps; what is done is told, and saved now and then."""
    last: LearningStep | None = None
    try:
        for step in steps:
            if last is not None and step.epoch > last.epoch:
                unfinished.epoch_done(last.epoch + 1, last.context, last.velocity)
            last = step
            if progress:
                progress(step.epoch, epochs, f"loss {step.loss:.3f}")
    except TrimtabError:  # it came to NaN: there is nothing to continue
        unfinished.remove()
        raise
    finally:  # also when interrupted: epochs that are done stay done
        unfinished.save()
    return unfinished.context() if last is None else last.context  # the last epoch was done when it was stopped


class _Unfinished:
    """The file that lets an interrupted run continue after the last epoch that it finished."""

    def __init__(self, path: Path, digest: str) -> None:
        self._path, self._digest = path, digest
        self._done: tuple[int, Array, Doubles] | None = None
        self._saved = time.monotonic()

    def read(self) -> tuple[int, Array, Doubles] | None:
        """The next epoch, and what the one before it ended with; None for a new run."""
        if not self._path.is_file():
            return None
        try:
            with safe_open(self._path, framework="numpy") as file:
                about = json.loads(file.metadata()["trimtab"])
                self._done = int(about["epoch"]), file.get_tensor("context"), file.get_tensor("velocity")
            digest, damaged = about["digest"], about["checksum"] != _checksum(*self._done)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError):
            damaged = True
        if damaged:
            raise TrimtabError(f"{self._path} cannot be read; delete it to begin again.")
        if digest != self._digest:
            raise TrimtabError(
                f"{self._path} was begun with other images, classes or settings; delete it to begin again, or give "
                "another name with --out."
            )
        return self._done

    def context(self) -> Array:
        """The context of the last epoch that is done."""
        assert self._done is not None
        return self._done[1]

    def epoch_done(self, epoch: int, context: Array, velocity: Doubles) -> None:
        """Remember an epoch, and now and then put it on the disk."""
        self._done = epoch, context, velocity
        if time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Put the last epoch that is done on the disk."""
        self._saved = time.monotonic()
        if self._done is None:
            return
        epoch, context, velocity = self._done
        about = json.dumps({"epoch": epoch, "digest": self._digest, "checksum": _checksum(*self._done)})
        try:
            write_whole(self._path, to_bytes({"context": context, "velocity": velocity}, {"trimtab": about}))
        except OSError as error:
            raise TrimtabError(f"{self._path} cannot be written: {error.strerror or error}.") from None

    def remove(self) -> None:
        """There is nothing to continue any more."""
        self._done = None
        with suppress(FileNotFoundError):
            self._path.unlink()


def _checksum(epoch: int, context: Array, velocity: Doubles) -> str:
    return hashlib.sha256(f"{epoch} {context.shape}".encode() + context.tobytes() + velocity.tobytes()).hexdigest()


def _digest(recipe: CoOp, shape: Shape, class_names: Sequence[str], ids: Sequence[str], features: str) -> str:
    """Of everything that decides what is learned; `features` says where those of the images come from."""
    settings = [recipe.described(), vars(shape), list(class_names), [str(one) for one in ids], features]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Loads some images of a set, by their new numbers."""

    load: Callable[[int], NDArray[np.uint8]]
    chosen: NDArray[np.int64]

    def __call__(self, index: int) -> NDArray[np.uint8]:
        return self.load(int(self.chosen[index]))


def _only(images: ImageSet, chosen: NDArray[np.int64]) -> ImageSet:
    return replace(
        images,
        labels=np.asarray(images.labels)[chosen],
        ids=[images.ids[i] for i in chosen],
        load=_Chosen(images.load, chosen),
        domains=None if images.domains is None else [images.domains[i] for i in chosen],
    )
