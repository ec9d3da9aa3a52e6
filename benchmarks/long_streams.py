"""Streams of 100,000 images: of one kind, drifting, and returning; with and without items that give way.

    python -m benchmarks.long_streams FOLDER SEEDS

FOLDER keeps the features: CIFAR-10's training images through `lite`, 30,000 as they are, 10,000 of low contrast and
10,000 with noise, all different; they are encoded if they are not there (ten minutes). Passes over them are shuffled
anew. Prints Markdown: top-1 in percent over the whole stream and over each tenth of it, means over the seeds.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, run_study, whole
from benchmarks.fusion_study.stores import CORRUPTIONS
from trimtab import MCP, Keel, Task
from trimtab.methods.base import Method

LENGTH = 100_000
TENTHS = 10
KINDS = {"clean": (0, 30_000), "contrast": (30_000, 40_000), "noise": (40_000, 50_000)}  # of a fixed permutation
METHODS: dict[str, Method] = {"MCP, lifetime 0": MCP(lifetime=0), "MCP": MCP(), "Keel": Keel()}


class Images(NamedTuple):
    """Features and labels."""

    features: NDArray[np.float32]
    labels: NDArray[np.int64]


def encode(path: Path, kind: str) -> None:
    """Write the features of one kind of image."""
    from trimtab.data.fetched.cifar import cifar10
    from trimtab.encoders import load_encoder
    from trimtab.images.views import make_views
    from trimtab.prompts.prototypes import text_prototypes

    images, encoder = cifar10(split="train"), load_encoder("lite")
    chosen = np.random.default_rng(1).permutation(len(images))[slice(*KINDS[kind])]
    features = np.empty((len(chosen), encoder.dim), np.float16)
    for start in range(0, len(chosen), 64):
        batch = chosen[start : start + 64]
        pixels = np.empty((len(batch), 1, encoder.input_size, encoder.input_size, 3), np.uint8)
        for out, index in zip(pixels, batch.tolist(), strict=True):
            image = images.load(index)
            if kind != "clean":
                image = CORRUPTIONS[kind](image, np.random.default_rng(index))
            make_views(image, encoder.input_size, 1, 0, out=out)
        features[start : start + len(batch)] = encoder.encode_images(pixels[:, 0])
    text = text_prototypes(encoder, images.class_names, images.templates)
    np.savez(path, features=features, labels=images.labels[chosen], text=text, logit_scale=encoder.logit_scale)


def passes(images: Images, count: int, random: np.random.Generator) -> Images:
    """So many images: pass after pass over all of them, each in an order of its own."""
    laps = -(-count // len(images.labels))
    order = np.concatenate([random.permutation(len(images.labels)) for _ in range(laps)])[:count]
    return Images(images.features[order], images.labels[order])


def joined(parts: list[Images]) -> Images:
    return Images(np.concatenate([p.features for p in parts]), np.concatenate([p.labels for p in parts]))


def stationary(kinds: dict[str, Images], random: np.random.Generator) -> Images:
    """Images of one kind all the time."""
    return passes(kinds["clean"], LENGTH, random)


def returning(kinds: dict[str, Images], random: np.random.Generator) -> Images:
    """Clean images, with three spells of others between them."""
    spells = ("clean", 2), ("contrast", 1), ("clean", 2), ("noise", 1), ("clean", 2), ("contrast", 1), ("clean", 1)
    return joined([passes(kinds[kind], tenths * LENGTH // TENTHS, random) for kind, tenths in spells])


def drifting(kinds: dict[str, Images], random: np.random.Generator) -> Images:
    """From clean to low contrast to noise, little by little, and never back."""
    time = np.linspace(0, 1, LENGTH)
    clean, contrast, noise = (passes(kinds[kind], LENGTH, random) for kind in KINDS)
    of_noise = random.random(LENGTH) < np.clip((time - 0.6) / 0.3, 0, 1)
    of_contrast = ~of_noise & (random.random(LENGTH) < np.clip(1 - np.abs(time - 0.5) / 0.35, 0, 1))
    for chosen, others in ((of_contrast, contrast), (of_noise, noise)):
        clean.features[chosen], clean.labels[chosen] = others.features[chosen], others.labels[chosen]
    return clean


def main(folder: Path, seeds: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    kinds, task = {}, None
    for kind in KINDS:
        path = folder / f"train_{kind}.npz"
        if not path.exists():
            encode(path, kind)
        with np.load(path) as file:
            features = file["features"].astype(np.float32)
            features /= np.linalg.norm(features, axis=1, keepdims=True)
            kinds[kind] = Images(features, file["labels"].astype(np.int64))
            task = Task([str(c) for c in range(10)], file["text"].astype(np.float32), float(file["logit_scale"]))
    assert task is not None
    print(f"| stream | method | all | {' | '.join(str(tenth + 1) for tenth in range(TENTHS))} |")
    print(f"|---|---|---|{'---|' * TENTHS}")
    for arrange in (stationary, drifting, returning):
        found: dict[str, list[list[float]]] = {name: [] for name in ("zero-shot", *METHODS)}
        for seed in range(seeds):
            images = arrange(kinds, np.random.default_rng(seed))
            answers = {"zero-shot": (images.features @ task.text_prototypes.T).argmax(axis=1)}
            for name, method in METHODS.items():
                answers[name] = method.start(task).run(images.features[:, None], keep_parts=False).labels
            for name, labels in answers.items():
                right = labels == images.labels
                found[name].append([right.mean(), *(part.mean() for part in np.array_split(right, TENTHS))])
        for name, rows in found.items():
            figures = " | ".join(f"{100 * figure:.1f}" for figure in np.mean(rows, axis=0))
            print(f"| {arrange.__name__} | {name} | {figures} |", flush=True)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, whole("SEEDS"))
