"""The files that bad inputs are about: good ones, and the same ones damaged. Built in a second, all in one folder."""

import json
import os
import shutil
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.bench_stores import make_store
from tests.tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.features import FeatureStore

NAMES = tuple(COLORS)
ODD_NAME = os.fsdecode(b"caf\xe9.png")  # a file name that is not UTF-8


def build(base: Path) -> None:
    """Write everything below `base`, which becomes the working folder of every case."""
    base.mkdir(parents=True)
    for part in (_images, _texts, _packed_features, _stores, _records, _tuned, _states, _models):
        part(base)


def unwritable() -> Path:
    """A folder that refuses to be written to, even by root."""
    return Path("/sys/kernel" if sys.platform == "linux" else "/System/Library")


def _images(base: Path) -> None:
    for number in range(8):
        _picture(base / "photos" / NAMES[number % 4] / f"{number}.png", number)
        _picture(base / "flat" / f"{number}.png", number)
    for name in ("red.png", "with space.png", "with\nnewline.png", "日本.png", ODD_NAME):
        _picture(base / "odd" / name, 0)
    _picture(base / "red.png", 0)
    whole = (base / "red.png").read_bytes()
    (base / "cut.png").write_bytes(whole[: len(whole) // 2])
    (base / "text.png").write_text("this is not an image\n")
    (base / "nothing.png").write_bytes(b"")
    (base / "bomb.png").write_bytes(_png_that_says_it_is_huge())
    (base / "empty").mkdir()
    for name in ("red", "green"):
        (base / "no-images" / name).mkdir(parents=True)
    (base / "partly").mkdir()
    shutil.copy(base / "red.png", base / "partly" / "red.png")
    shutil.copy(base / "cut.png", base / "partly" / "cut.png")
    os.mkfifo(base / "pipe")
    (base / "to-itself").symlink_to("to-itself")
    (base / "to-nothing").symlink_to("nowhere")


def _picture(file: Path, number: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(colored(NAMES[number % 4], seed=number)).save(file)


def _png_that_says_it_is_huge() -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def _texts(base: Path) -> None:
    texts: dict[str, str | bytes] = {
        "words.txt": "some words\n",
        "labels.txt": "red\ngreen\nblue\nyellow\n",
        "labels-latin1.txt": "rosé\nvert\n".encode("latin-1"),
        "labels-utf16.txt": "red\ngreen\n".encode("utf-16"),
        "labels-one.txt": "red\n",
        "labels-empty.txt": "",
        "labels-blank.txt": "\n \n\n",
        "labels-twice.txt": "red\ngreen\nred\n",
        "labels-nul.txt": "red\0\ngreen\n",
        "templates-latin1.txt": "une photo d'été de {}\n".encode("latin-1"),
        "templates-empty.txt": "",
        "templates-no-slot.txt": "a photo\n",
        "templates-two-slots.txt": "a {} and a {}\n",
        "cupl.json": json.dumps({name: [f"A {name} thing."] for name in NAMES}),
        "cupl-cut.json": '{"red": ["A red',
        "cupl-list.json": "[1, 2]",
        "cupl-other-classes.json": '{"cat": ["A cat."]}',
        "cupl-numbers.json": json.dumps({name: [1, 2] for name in NAMES}),
        "cupl-null.json": json.dumps(dict.fromkeys(NAMES)),
        "cupl-no-sentences.json": json.dumps({name: [] for name in NAMES}),
        "cupl-latin1.json": '{"red": ["rosé"]}'.encode("latin-1"),
        "manifest-cut.csv": "path,label\nred.png\n",
        "manifest-missing.csv": "path,label\nnowhere.png,red\n",
        "manifest-empty.csv": "",
        "manifest-latin1.csv": "path,label\nred.png,rosé\n".encode("latin-1"),
        "lines.csv": "path,label,score\nflat/0.png,red,0.9\n",
        "lines.jsonl": '{"path": "flat/0.png", "predictions": []}\n',
        "not-lines.csv": "a,b\n1,2\n",
        "not-lines.jsonl": "hello\n[1]\n",
    }
    for name, text in texts.items():
        (base / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def _packed_features(base: Path) -> None:
    encoder = ColorEncoder()
    good: dict[str, Any] = {
        "features": encoder.encode_images(np.stack([colored(name, 1, 24, 24) for name in NAMES * 5])),
        "labels": np.arange(20) % 4,
        "text": encoder.encode_texts(NAMES),
        "class_names": np.array(NAMES),
    }
    np.savez(base / "good.npz", **good)
    whole = (base / "good.npz").read_bytes()
    (base / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (base / "text.npz").write_text("not a zip\n")
    (base / "nothing.npz").write_bytes(b"")
    np.savez(base / "lacks-text.npz", **{key: value for key, value in good.items() if key != "text"})
    np.savez(base / "nan.npz", **{**good, "features": np.full_like(good["features"], np.nan)})
    np.savez(base / "label-9.npz", **{**good, "labels": np.full(20, 9)})
    np.savez(base / "short-labels.npz", **{**good, "labels": np.arange(3)})
    np.savez(base / "half-labels.npz", **{**good, "labels": np.full(20, 0.5)})
    np.savez(base / "other-dim.npz", **{**good, "text": good["text"][:, :5]})
    np.savez(base / "no-images.npz", **{**good, "features": good["features"][:0], "labels": good["labels"][:0]})
    np.savez(base / "objects.npz", **{**good, "class_names": np.array([*NAMES[:3], None], dtype=object)})
    np.savez(base / "same-names.npz", **{**good, "class_names": np.array(["red"] * 4)})


def _stores(base: Path) -> None:
    make_store(base / "store", images=60)
    make_store(base / "store-2", dataset="other", images=60, seed=1)
    whole_store = FeatureStore.open(base / "store")
    task = whole_store.task()
    nobody = np.full(60, -1)
    FeatureStore.from_arrays(
        base / "store-unlabeled", whole_store.rows(np.arange(60)), nobody, task.text_prototypes, task.class_names, 20.0
    )
    whole = base / "store"

    def damaged(name: str, damage: Callable[[Path], object]) -> None:
        shutil.copytree(whole, base / f"store-{name}")
        damage(base / f"store-{name}")

    def manifest(key: str, value: Any) -> Callable[[Path], object]:
        return lambda store: _changed(key, value)(store / "manifest.json")

    damaged("cut", lambda store: _cut(next(store.glob("shard*.npy"))))
    damaged("flipped", lambda store: _flip_byte(next(store.glob("shard*.npy"))))
    damaged("no-shard", lambda store: next(store.glob("shard*.npy")).unlink())
    damaged("no-manifest", lambda store: (store / "manifest.json").unlink())
    damaged("manifest-cut", lambda store: _cut(store / "manifest.json"))
    damaged("manifest-list", lambda store: (store / "manifest.json").write_text("[]"))
    damaged("manifest-null", lambda store: (store / "manifest.json").write_text("null"))
    damaged("manifest-latin1", lambda store: (store / "manifest.json").write_bytes(b'{"a": "\xe9"}'))
    damaged("manifest-empty", lambda store: (store / "manifest.json").write_bytes(b""))
    damaged("manifest-folder", _manifest_as_folder)
    damaged("newer", manifest("version", 99))
    damaged("no-version", manifest("version", GONE))
    damaged("no-classes", manifest("class_names", GONE))
    damaged("null-classes", manifest("class_names", None))
    damaged("number-classes", manifest("class_names", 7))
    damaged("shards-outside", manifest("shards", [{"file": "../red.png", "rows": 60, "sha256": "0", "size": 1}]))


def _manifest_as_folder(store: Path) -> None:
    (store / "manifest.json").unlink()
    (store / "manifest.json").mkdir()


def _cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def _flip_byte(file: Path, position: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 0x01
    file.write_bytes(content)


GONE = object()


def _changed(place: str, value: Any) -> Callable[[Path], object]:
    """Puts a value (or nothing: GONE) at a place such as "about.method" of a JSON file."""

    def change(file: Path) -> None:
        content = json.loads(file.read_bytes())
        *path, key = place.split(".")
        inner = content
        for step in path:
            inner = inner[step]
        inner[key] = value
        if value is GONE:
            del inner[key]
        file.write_text(json.dumps(content, indent=1))

    return change


def _records(base: Path) -> None:
    from trimtab.study.bench import make_plan, run_plan

    plan = make_plan([base / "store"], ["tda", "mcp"], seeds=2, weights=["fixed"])
    run_plan(plan, base / "results", workers=1)
    first = next(path.relative_to(base / "results") for path in sorted((base / "results").rglob("mcp*.json")))

    def damaged(name: str, damage: Callable[[Path], object], file: Path = first) -> None:
        shutil.copytree(base / "results", base / f"results-{name}")
        damage(base / f"results-{name}" / file)

    damaged("cut", _cut)
    damaged("flipped", lambda file: _flip_byte(file, file.read_bytes().index(b"0.6") + 2))
    damaged("empty-record", lambda file: file.write_bytes(b""))
    damaged("list", lambda file: file.write_text("[]"))
    damaged("null", lambda file: file.write_text("null"))
    damaged("latin1", lambda file: file.write_bytes(b'{"a": "\xe9"}'))
    damaged("newer", _changed("version", 99))
    damaged("edited", _changed("scores.accuracy", 0.999))
    for name, key, value in WRONG_IN_RECORDS:
        damaged(name, _changed(key, value))
    plan_file = Path("plan.json")
    damaged("plan-cut", _cut, plan_file)
    damaged("plan-list", lambda file: file.write_text("[]"), plan_file)
    damaged("plan-numbers", _changed("records", [1, 2]), plan_file)
    damaged("plan-newer", _changed("version", 99), plan_file)
    damaged("plan-latin1", lambda file: file.write_bytes(b'{"a": "\xe9"}'), plan_file)
    (base / "results-none").mkdir()
    shutil.copy(base / "results" / "plan.json", base / "results-none" / "plan.json")


# Name of the folder, place in the record, and what stands there.
WRONG_IN_RECORDS: tuple[tuple[str, str, Any], ...] = (
    ("no-about", "about", GONE),
    ("null-about", "about", None),
    ("no-method", "about.method", GONE),
    ("null-method", "about.method", None),
    ("null-classes", "about.class_names", None),
    ("null-parameters", "about.parameters", None),
    ("text-images", "about.images", "many"),
    ("null-seed", "about.seed", None),
    ("no-scores", "scores", GONE),
    ("null-scores", "scores", None),
    ("no-accuracy", "scores.accuracy", GONE),
    ("null-accuracy", "scores.accuracy", None),
    ("text-accuracy", "scores.accuracy", "high"),
    ("nan-accuracy", "scores.accuracy", float("nan")),
    ("accuracy-7", "scores.accuracy", 7.0),
    ("null-recall", "recall", None),
    ("short-recall", "recall", [0.5]),
    ("null-reliability", "reliability", None),
    ("short-reliability", "reliability.count", [1]),
    ("null-along", "along", None),
    ("garbage-correct", "correct", "not base64!"),
    ("short-correct", "correct", "AA=="),
    ("null-correct", "correct", None),
    ("labeled-minus", "labeled", -1),
    ("labeled-huge", "labeled", 10**12),
    ("null-cost", "cost", None),
    ("text-seconds", "cost.seconds", "long"),
    ("null-versions", "versions", None),
    ("strange-status", "status", "strange"),
    ("unknown-key", "nonsense", 1),
)


def _tuned(base: Path) -> None:
    from trimtab.study.bench.tuned import TunedParameters

    good = TunedParameters("tuned on small", "tda", {"positive_slots": 2}, "0" * 64, "small", 3, 0.5, 0.4)
    good.save(base / "tuned.json")
    changes: dict[str, tuple[str, Any]] = {
        "newer": ("version", 99),
        "no-method": ("method", GONE),
        "other-method": ("method", "nonsense"),
        "number-method": ("method", 7),
        "null-parameters": ("parameters", None),
        "list-parameters": ("parameters", [1]),
        "bad-value": ("parameters", {"positive_slots": -3}),
        "bad-name": ("parameters", {"nonsense": 1}),
        "text-accuracy": ("oracle_accuracy", "high"),
        "extra": ("nonsense", 1),
    }
    for name, (key, value) in changes.items():
        shutil.copy(base / "tuned.json", base / f"tuned-{name}.json")
        _changed(key, value)(base / f"tuned-{name}.json")
    shutil.copy(base / "tuned.json", base / "tuned-cut.json")
    _cut(base / "tuned-cut.json")
    (base / "tuned-latin1.json").write_bytes(b'{"a": "\xe9"}')
    (base / "tuned-list.json").write_text("[]")
    (base / "broken.json.journal").write_text("this is not a journal\n")


def _states(base: Path) -> None:
    from trimtab.classifier import Classifier

    def saved(name: str, labels: tuple[str, ...], method: str = "mcp") -> Path:
        classifier = Classifier(ColorEncoder(), labels, method=method)
        for number in range(4):
            classifier.classify(base / "flat" / f"{number}.png")
        classifier.save(base / name)
        return base / name

    state = saved("learned.state", NAMES)
    saved("learned-two.state", NAMES[:2])
    saved("learned-tda.state", NAMES, "tda")
    whole = state.read_bytes()
    (base / "cut.state").write_bytes(whole[: len(whole) // 2])
    (base / "flipped.state").write_bytes(whole)
    _flip_byte(base / "flipped.state")
    (base / "nothing.state").write_bytes(b"")
    (base / "huge-header.state").write_bytes(struct.pack("<Q", 1 << 62) + whole[8:])


def _models(base: Path) -> None:
    (base / "onnx-text").mkdir()
    for name in ("image.onnx", "text.onnx", "tokenizer.json", "trimtab.json"):
        (base / "onnx-text" / name).write_text("hello")
    (base / "hf-text").mkdir()
    (base / "hf-text" / "config.json").write_text("hello")
    (base / "text.pt").write_text("hello")
    cifar = base / "cifar" / "cifar-10-batches-bin"
    cifar.mkdir(parents=True)
    (cifar / "test_batch.bin").write_bytes(b"\0" * 1000)
    (cifar / "batches.meta.txt").write_text("airplane\n")
