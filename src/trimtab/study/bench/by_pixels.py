"""Runs of methods that need pixels: the images behind a store, view for view, and a stream that survives a stop.

A store says how its views were cut, so the same pixels can be made again from the images. What a method predicts is put
aside now and then, since such runs take hours; a run that is started again continues behind it.
"""

import hashlib
import json
import logging
import time
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import ImageSet, no_larger_than
from trimtab.data.catalog import load_dataset
from trimtab.data.orders import order_by_name
from trimtab.encoders import load_encoder
from trimtab.encoders.base import image_prompts
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.features.manifest import JPEG_SIDE
from trimtab.files import cache_folder, write_whole
from trimtab.images.views import make_views
from trimtab.interrupts import HoldInterrupts
from trimtab.methods.base import Method
from trimtab.stream import Predictions, Stream
from trimtab.study.bench.plan import Run
from trimtab.task import Task

_log = logging.getLogger(__name__)

SECONDS_BETWEEN_SAVES = 60.0


class PixelRows:
    """The views behind a store's rows in a stream's order, cut when they are asked for: (N, V, size, size, 3) bytes."""

    dtype = np.dtype(np.uint8)
    rows_checked = True

    def __init__(
        self, images: ImageSet, store: FeatureStore, order: NDArray[np.int64], views: int | None, size: int
    ) -> None:
        place = {str(identity): number for number, identity in enumerate(images.ids)}
        missing = [identity for identity in store.ids if identity not in place]
        if missing:
            raise TrimtabError(f"{images.name} does not hold the image {missing[0]} of {store.path}; give its images.")
        self._size, self._info = size, store.info
        enough = store.info.preprocessing.get(JPEG_SIDE)
        self._load = images.load if enough is None else no_larger_than(images.load, enough)
        self._places = [place[store.ids[row]] for row in order]
        self.labels = store.labels[order]
        self.shape = (len(order), views or store.views, size, size, 3)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        augmix = bool(self._info.preprocessing.get("augmix", False))
        found = [
            make_views(self._load(index), self._size, self.shape[1], self._info.seed, augmix=augmix)
            for index in self._places[rows]
        ]
        return np.stack(found) if found else np.empty((0, *self.shape[1:]), np.uint8)


def prepare(run: Run, store: FeatureStore, method: Method) -> tuple[Task, PixelRows]:
    """The store's task with the prompts of its encoder, and its images in the run's order."""
    encoder = load_encoder(store.info.encoder)
    if encoder.fingerprint != store.info.encoder_fingerprint:
        raise TrimtabError(f"{store.info.encoder} has changed since {run.store} was encoded; encode it again.")
    prompts = image_prompts(encoder, store.class_names, method.name)
    order = order_by_name(run.order, labels=store.labels, domains=store.domains, seed=run.seed)
    rows = PixelRows(load_dataset(run.images), store, order, run.views, encoder.input_size)
    text = store.task()
    return Task(text.class_names, text.text_prototypes, text.logit_scale, image_prompts=prompts), rows


def run_resumable(run: Run, stream: Stream, rows: PixelRows, code: str) -> tuple[Predictions, float]:
    """What `stream.run(rows)` gives, continued where an earlier attempt at the same run was stopped.

    Also the seconds that it took, those of earlier attempts included.
    """
    kept = _Kept(run, stream, code)
    stream, parts, earlier = kept.read(len(rows))
    saved, start = time.monotonic(), time.perf_counter() - earlier
    with HoldInterrupts() as interrupts:  # an image is taken in and its answer noted, or neither
        try:
            for number in range(stream.seen, len(rows)):
                with interrupts.welcome():
                    views = rows[number : number + 1][0]
                prediction = stream.step(views)
                for name, values in {**prediction.parts, "": prediction.probabilities}.items():
                    parts[name][number] = values
                if time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    kept.write(stream, parts, time.perf_counter() - start)
                    saved = time.monotonic()
                    _log.info("%s: %d of %d images", run, stream.seen, len(rows))
                interrupts.arrive()
        except BaseException:  # also Ctrl-C: what is done stays done
            with suppress(TrimtabError):  # a step that broke leaves the last save
                kept.write(stream, parts, time.perf_counter() - start)
            raise
    seconds = time.perf_counter() - start
    kept.remove()
    fused = parts.pop("")
    return Predictions(parts, fused, fused.argmax(axis=1)), seconds


class _Kept:
    """What a run has predicted so far, in the cache folder under a name that says which run it is."""

    def __init__(self, run: Run, stream: Stream, code: str) -> None:
        self._stream = stream
        key = [run.file_of("fixed"), stream.task.fingerprint, {**stream.method.parameters(), **run.contents}, code]
        digest = hashlib.sha256(json.dumps(key, default=list).encode()).hexdigest()[:20]
        folder = cache_folder("bench")
        self._state, self._parts = folder / f"{digest}.state", folder / f"{digest}.parts"

    def read(self, images: int) -> tuple[Stream, dict[str, Array], float]:
        """The stream as it was put aside, its predictions and the seconds they took; or a new one."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        names = (*self._stream.method.parts, "")
        parts: dict[str, Array] = {n: np.zeros((images, self._stream.task.classes), np.float32) for n in names}
        try:
            found = load_file(self._parts)
            stream = Stream.load(self._state, self._stream.task, self._stream.method)
            done, seconds = found["seen and seconds"]
            if stream.seen != done or any(found[f"part {name}"].shape != parts[name].shape for name in names):
                return self._stream, parts, 0.0
        except (OSError, KeyError, SafetensorError, TrimtabError):
            return self._stream, parts, 0.0
        return stream, {name: found[f"part {name}"] for name in names}, float(seconds)

    def write(self, stream: Stream, parts: dict[str, Array], seconds: float) -> None:
        """Put everything aside; if a kill comes between the two files they do not match, and are not used."""
        from safetensors.numpy import save

        arrays = {f"part {name}": values for name, values in parts.items()}
        write_whole(self._parts, save({**arrays, "seen and seconds": np.array([stream.seen, seconds])}))
        stream.save(self._state)

    def remove(self) -> None:
        """The run is done."""
        for file in (self._state, self._parts):
            file.unlink(missing_ok=True)
