"""The kinds of files that are damaged: how to make small valid ones, and how they are read."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trimtab import MCP, FeatureStore, Stream, TrimtabError, make_method
from trimtab.checks import random_stream
from trimtab.data.folder import image_folder
from trimtab.encoders.prompted.context_files import read_context, save_context
from trimtab.features import FeatureWriter, StoreInfo
from trimtab.images.decode import decode
from trimtab.learn.run import _Unfinished
from trimtab.study.bench import make_plan, read_results, run_plan
from trimtab.study.bench.tuned import TunedParameters


@dataclass(frozen=True)
class Target:
    """A kind of file: `make(folder)` writes valid ones, `read(folder)` gives something that can be compared.

    `files` are those to damage. `promised`: a checksum vouches for them, so a changed one may not be accepted; a file
    that carries a checksum of its own promises as much.
    """

    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    files: str
    promised: bool


TASK, FEATURES = random_stream(classes=4, dim=8, views=2, images=24, seed=0)


def _make_state(folder: Path) -> None:
    stream = MCP(entropy_slots=2, align_slots=2, negative_slots=1).start(TASK)
    stream.run(FEATURES)
    stream.save(folder / "state")


def _read_state(folder: Path) -> Any:
    stream = Stream.load(folder / "state", TASK)
    return {name: array.tobytes() for name, array in stream.arrays().items()}


def _info() -> StoreInfo:
    return StoreInfo(
        dataset="small",
        encoder="tiny",
        encoder_fingerprint="f" * 64,
        preprocessing={"size": 32},
        prompts="photo",
        seed=0,
        views=2,
        dim=8,
        dtype="float16",
        logit_scale=20.0,
        class_names=tuple(TASK.class_names),
        labels=tuple(i % 4 for i in range(24)),
        ids=tuple(f"{i}.jpg" for i in range(24)),
    )


def _make_store(folder: Path, stop: int | None = None) -> None:
    with FeatureWriter(folder / "store", _info(), np.asarray(TASK.text_prototypes)) as writer:
        first = writer.next_image
        for position in range(first, 24 if stop is None else stop):
            writer.add([position], FEATURES[[position]], [])
        if stop is None:
            writer.finish()


def _make_half_a_store(folder: Path) -> None:
    _make_store(folder, stop=14)


def _read_store(folder: Path) -> Any:
    store = FeatureStore.open(folder / "store", verify=True)
    return store.fingerprint, store.rows(slice(None)).tobytes(), store.task().fingerprint, store.labels.tolist()


def _resume_store(folder: Path) -> Any:
    _make_store(folder)
    return _read_store(folder)


def _make_images(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    for suffix in ("png", "jpg", "gif", "bmp", "tiff", "webp", "ppm"):
        Image.fromarray(pixels).save(folder / f"image.{suffix}")


def _read_images(folder: Path) -> Any:
    found = {}
    refused = None
    for path in sorted(folder.iterdir()):
        try:
            pixels = decode(path)
        except TrimtabError as error:
            refused = error
            continue
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 3
        found[path.name] = pixels.tobytes()
    if refused is not None:
        raise refused
    return found


def _make_lists(suffix: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for name in ("a", "b", "c"):
            Image.new("RGB", (4, 3), "red").save(folder / f"{name}.png")
        rows = [{"path": f"{name}.png", "label": "red", "domain": "photo"} for name in ("a", "b", "c")]
        lines = [json.dumps(row) for row in rows]
        if suffix == "csv":
            lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        (folder / f"manifest.{suffix}").write_text("\n".join(lines) + "\n")

    return make


def _read_list(folder: Path) -> Any:
    images = image_folder(folder)
    shapes = [images.load(i).shape for i in range(len(images))]
    return images.class_names, images.labels.tolist(), list(images.ids), list(images.domains or ()), shapes


def _make_results(folder: Path) -> None:
    _make_store(folder)
    run_plan(make_plan([folder / "store"], ["zero_shot", "tda"], seeds=1), folder / "results", workers=1)
    shutil.rmtree(folder / "store")


def _read_records(folder: Path) -> Any:
    results = read_results(folder / "results")
    if refused := getattr(results, "refused", ()):  # the others are still shown
        raise TrimtabError(refused[0])
    return [repr(record) for record in results.records], [_correct(record) for record in results.records]


def _correct(record: Any) -> list[bool]:
    return record.correct_images().tolist() if record.ok else []


def _make_tuned(folder: Path) -> None:
    TunedParameters("tuned", "mcp", {"entropy_slots": 2}, "f" * 64, "small", 3, 0.5, 0.4).save(folder / "tuned.json")


def _read_tuned(folder: Path) -> Any:
    found = TunedParameters.load(folder / "tuned.json")
    return repr(found), make_method(found.method, **found.parameters)


CONTEXT = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)


def _make_context(folder: Path) -> None:
    about = {"position": "end", "encoder": "tiny", "encoder_fingerprint": "f" * 64, "trained_on": "small (4 per class)"}
    save_context(folder / "context.safetensors", CONTEXT, **about, class_names=["cat", "dog"], learned_as="d" * 64)


def _read_context(folder: Path) -> Any:
    found = read_context(folder / "context.safetensors")
    return found.context.tobytes(), {name: value for name, value in vars(found).items() if name != "context"}


def _make_half_a_context(folder: Path) -> None:
    unfinished = _Unfinished(folder / "context.safetensors.unfinished", "d" * 64)
    unfinished.epoch_done(3, CONTEXT, 2.0 * CONTEXT.astype(np.float64))
    unfinished.save()


def _resume_context(folder: Path) -> Any:
    found = _Unfinished(folder / "context.safetensors.unfinished", "d" * 64).read()
    return found and (found[0], found[1].tobytes(), found[2].tobytes())


TARGETS: tuple[Target, ...] = (
    Target("state", _make_state, _read_state, "state", promised=True),
    Target("store manifest", _make_store, _read_store, "manifest.json", promised=True),
    Target("store shards", _make_store, _read_store, "*.npy", promised=True),
    Target("store progress", _make_half_a_store, _resume_store, "progress.json", promised=True),
    Target("unfinished store", _make_half_a_store, _resume_store, "*.*", promised=True),
    Target("image", _make_images, _read_images, "image.*", promised=False),
    Target("folder manifest csv", _make_lists("csv"), _read_list, "manifest.csv", promised=False),
    Target("folder manifest jsonl", _make_lists("jsonl"), _read_list, "manifest.jsonl", promised=False),
    Target("record", _make_results, _read_records, "*.json", promised=False),
    Target("tuned parameters", _make_tuned, _read_tuned, "tuned.json", promised=False),
    Target("learned context", _make_context, _read_context, "*.safetensors", promised=True),
    Target("unfinished context", _make_half_a_context, _resume_context, "*.unfinished", promised=True),
)
