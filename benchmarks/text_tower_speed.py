"""How fast a prompt can be learned: one step of TPT per image through our text tower and in the field's style.

A step pulls slopes back to the start context and computes the features at the next one. The field's programs compute
those at the start for every image, too; ours keep them, for they are the same for all images. The text tower has a
ViT-B/16's size and random weights, in float32. The field's style takes classes in chunks here, since at 1,000 classes
its graph would need about 20 GB; nothing is computed twice for that.

Each size has a process of its own, so that its peak memory means something. `python -m benchmarks.text_tower_speed
1000` measures one size; a second number is that of the threads, for an idle machine.
"""

import json
import subprocess
import sys

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.clock import milliseconds
from benchmarks.field_style import text_tower as field_style
from trimtab.encoders.openai.model import OpenAIClip
from trimtab.encoders.prompted.layouts import openai_layout
from trimtab.encoders.prompted.tower import PromptedTower
from trimtab.encoders.prompted.wording import Wording
from trimtab.study.bench.measures import peak_memory_mb

IMAGES = {100: (10, 2), 1000: (3, 1)}  # classes -> how many images ours and the field's style are timed on
WIDTH, DIM, LAYERS, VOCABULARY, LENGTH = 512, 512, 12, 49408, 4
FIELD_CHUNK = 50  # classes
THREADS = 1  # for both, if no other number is given: on a busy machine more would wait for each other
# How many of a hundred names have 1, 2, 3 ... tokens: as CLIP's tokenizer finds it for ImageNet's class names.
NAME_LENGTHS = np.repeat(np.arange(1, 7), (30, 54, 11, 3, 1, 1))

Array = NDArray[np.float32]


def random_model(seed: int = 0) -> OpenAIClip:
    """A ViT-B/16's text tower, and next to no image tower."""
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (VOCABULARY, WIDTH),
        "positional_embedding": (77, WIDTH),
        "text_projection": (WIDTH, DIM),
        "visual.conv1.weight": (64, 3, 8, 8),
        "visual.positional_embedding": (17, 64),
        "visual.proj": (64, DIM),
        "visual.transformer.resblocks.0.mlp.c_fc.weight": (64, 64),
        **{f"transformer.resblocks.{layer}.mlp.c_fc.weight": (4 * WIDTH, WIDTH) for layer in range(LAYERS)},
    }
    model = OpenAIClip({name: torch.empty(shape, device="meta") for name, shape in shapes.items()})
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.requires_grad_(False).named_parameters():
        if "ln_" in name:
            parameter.fill_(float(name.endswith("weight")))
        else:
            deep = (2 * LAYERS) ** -0.5 if "proj.weight" in name else 1.0
            scale = 0.02 if "embedding" in name else deep * parameter.shape[-1:].numel() ** -0.5
            parameter.normal_(0, scale, generator=generator)
    return model.eval()


def random_wording(classes: int) -> Wording:
    """Names of random tokens, about as long as ImageNet's."""
    random = np.random.default_rng(0)
    names = tuple(tuple(random.integers(300, 49000, n).tolist()) for n in np.resize(NAME_LENGTHS, classes))
    return Wording(tuple(str(c) for c in range(classes)), 49406, names, ((269, 49407),) * classes)


def measure(classes: int, threads: int = THREADS) -> dict[str, float]:
    """Milliseconds per image of both, and megabytes at most; refuses figures of towers that differ."""
    torch.set_num_threads(threads)
    ours, field = IMAGES[classes]
    model, wording = random_model(), random_wording(classes)
    random = np.random.default_rng(1)
    start = (0.02 * random.normal(size=(LENGTH, WIDTH))).astype(np.float32)
    slopes = random.normal(size=(classes, DIM)).astype(np.float32)
    tower = PromptedTower(openai_layout(model), wording, start, "end", encoder="random", encoder_fingerprint="random")
    gradient = tower.pullback(tower.start, slopes)  # from here on, the pass at the start is kept
    after = (start - 5e-3 * np.sign(gradient)).astype(np.float32)
    tower.features(after)
    back = min(milliseconds(lambda: tower.pullback(tower.start, slopes)) for _ in range(ours))
    forward = min(milliseconds(lambda: tower.features(after)) for _ in range(ours))
    megabytes = peak_memory_mb()
    found: list[tuple[Array, Array]] = []
    in_field_style = min(
        milliseconds(lambda: found.append(_field_step(model, wording, start, after, slopes))) for _ in range(field)
    )
    gradient_error = np.abs(gradient - found[0][0]).max() / np.abs(found[0][0]).max()
    feature_error = np.abs(tower.features(after) - found[0][1]).max()
    if gradient_error > 1e-4 or feature_error > 1e-5:
        raise AssertionError(f"The towers differ: {gradient_error:.1e} in gradients, {feature_error:.1e} in features.")
    return {
        "C": classes,
        "threads": threads,
        "pull-back": back,
        "forward": forward,
        "field style": in_field_style,
        "megabytes": megabytes,
        "gradient error": float(gradient_error),
        "feature error": float(feature_error),
    }


def _field_step(model: OpenAIClip, wording: Wording, start: Array, after: Array, slopes: Array) -> tuple[Array, Array]:
    """The gradient at the start, and the features after the step."""
    gradient, features = torch.zeros(start.shape), []
    for first in range(0, len(wording.names), FIELD_CHUNK):
        chunk = slice(first, first + FIELD_CHUNK)
        tokens, none = _padded(wording, chunk), [0] * FIELD_CHUNK
        chunk_slopes = torch.from_numpy(slopes[chunk])
        gradient += field_style.pullback(model, tokens, torch.from_numpy(start), chunk_slopes, none)
        with torch.no_grad():
            features.append(field_style.features(model, tokens, torch.from_numpy(after), none).numpy())
    return gradient.numpy(), np.concatenate(features)


def _padded(wording: Wording, chunk: slice) -> Tensor:
    """(n, 77) token numbers as the field's programs have them; the context's places hold any word."""
    texts = [
        (wording.start, *(320,) * LENGTH, *name, *rest)
        for name, rest in zip(wording.names[chunk], wording.rests[chunk], strict=True)
    ]
    return torch.tensor([[*text, *(0,) * (77 - len(text))] for text in texts])


def show(console: Console) -> None:
    """Measure and print the table."""
    table = Table(title="One step of TPT through a ViT-B/16's text tower, ms per image (float32, one thread, one run)")
    columns = ("C", "pull-back", "forward", "ours", "field style", "field/ours", "peak memory", "errors")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for classes in IMAGES:
        command = [sys.executable, "-m", "benchmarks.text_tower_speed", str(classes)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        ours = row["pull-back"] + row["forward"]
        table.add_row(
            str(classes),
            *(f"{ms:,.0f}" for ms in (row["pull-back"], row["forward"], ours, row["field style"])),
            f"{row['field style'] / ours:.1f}",
            f"{row['megabytes']:,.0f} MB",
            f"{row['gradient error']:.0e}, {row['feature error']:.0e}",
        )
    console.print(table)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(*map(int, sys.argv[1:]))))
    else:
        show(Console(width=130))
