"""What the reader of a page is assumed to have: files in the working folder, and names in Python.

Where a page speaks of a checkpoint, a tiny random model of the same layout stands in; pictures are CIFAR-10's.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench_stores import make_store
from image_files import make_image
from trimtab import Keel
from trimtab.checks import random_stream
from trimtab.data import load_dataset
from trimtab.task import Task


def given(page: str, folder: Path) -> dict[str, Any]:
    """Lay out the files of a page in `folder` and return its names."""
    return GIVEN.get(page, lambda _: {})(folder)


def readme(folder: Path) -> dict[str, Any]:
    return {"paths": photos(folder / "photos", [0, 1, 4]), **features_of_ones_own()}


def home(folder: Path) -> dict[str, Any]:
    return {"paths": photos(folder / "photos", [0, 1, 4])}


def classify(folder: Path) -> dict[str, Any]:
    photos(folder / "photos", [1, 4, 15])
    (folder / "camera").mkdir()
    photos(folder / "camera", [0, 3], ".jpg")
    (folder / "species.txt").write_text("cat\nship\n")
    return {}


def data(folder: Path) -> dict[str, Any]:
    for name, count in {"apple": 29, "melon": 6, "orange": 12, "pear": 13, "satsuma": 10}.items():
        for number in range(count):
            make_image(folder / "shop" / name / f"{number}.jpg")
    caltech = folder / "DATA" / "caltech-101"
    make_image(caltech / "101_ObjectCategories" / "face" / "0.jpg")
    (caltech / "split_zhou_Caltech101.json").write_text(json.dumps({"train": [], "val": [], "test": []}))
    (folder / "DATA" / "dtd" / "images").mkdir(parents=True)
    labels = np.arange(200) % 4
    return {"labels": labels, "zero_shot_predictions": labels.copy(), "class_names": list("abcd")}


def clips(folder: Path) -> dict[str, Any]:
    """Tiny models under the names that the page uses."""
    import torch
    from safetensors.torch import save_file

    import tiny_clips

    model = tiny_clips.save_hf_clip(folder / "models" / "clip-vit-base-patch16")
    tiny_clips.save_hf_clip(folder / "openai" / "clip-vit-base-patch16")
    weights = tiny_clips.openai_names(model)
    torch.save(weights, folder / "RN50.pt")
    save_file(weights, folder / "models" / "open_clip_model.safetensors")
    for place in (folder, folder / "models"):
        tiny_clips.write_merges(place)
    return {"pixels": tiny_clips.some_pixels()}


def stores(_: Path) -> dict[str, Any]:
    task, features = random_stream(classes=5, dim=16, views=1, images=60, seed=0)
    text, labels = task.text_prototypes, np.arange(60) % 5
    return {"features": features, "labels": labels, "text": text, "class_names": task.class_names}


def bench(folder: Path) -> dict[str, Any]:
    from matplotlib.figure import Figure

    make_store(folder / "features" / "cifar10", "cifar10", images=120)
    make_store(folder / "features" / "groceries", "groceries", images=120)
    return {"my_axes": Figure().subplots()}


def production(_: Path) -> dict[str, Any]:
    task, features = random_stream(classes=4, dim=32, views=1, images=500, seed=0)
    task = Task(["apple", "melon", "orange", "pear"], task.text_prototypes, 50.0)
    stream = iter(features)
    known = task.text_prototypes[:1]
    return {
        "task": task,
        "arriving": lambda count: (next(stream) for _ in range(count)),
        "batch": features[-50:],
        "known": known,
        "known_label": 0,
    }


def features_of_ones_own(*_: Path) -> dict[str, Any]:
    task, features = random_stream(classes=4, dim=16, views=2, images=50, seed=0)
    return {
        "task": task,
        "class_names": task.class_names,
        "text_prototypes": task.text_prototypes,
        "features": features,
        "views": features[0],
    }


def a_labeled_stream(*_: Path) -> dict[str, Any]:
    """Features, a stream of them, and what they show."""
    found = features_of_ones_own()
    labels = np.random.default_rng(0).integers(4, size=len(found["features"]))
    return {**found, "labels": labels, "stream": Keel().start(found["task"])}


def photos(folder: Path, numbers: list[int], kind: str = ".png") -> list[str]:
    """Test images of CIFAR-10 as files; the names tell what they show."""
    folder.mkdir(exist_ok=True)
    cifar = load_dataset("cifar10")
    paths = []
    for number in numbers:
        paths.append(f"{folder.name}/{number:05d}-{cifar.class_names[cifar.labels[number]]}{kind}")
        Image.fromarray(cifar.load(number)).save(folder.parent / paths[-1])
    return paths


GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {
    "docs/cluster.md": features_of_ones_own,
    "docs/large-label-sets.md": features_of_ones_own,
    "README.md": readme,
    "docs/index.md": home,
    "docs/classify.md": classify,
    "docs/bring-your-data.md": data,
    "docs/bring-your-clip.md": clips,
    "docs/feature-store.md": stores,
    "docs/benchmark.md": bench,
    "docs/production.md": production,
    "docs/weights-without-labels.md": features_of_ones_own,
    "docs/keel.md": features_of_ones_own,
    "docs/calibration.md": a_labeled_stream,
    "docs/long-streams.md": features_of_ones_own,
}
