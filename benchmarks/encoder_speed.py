"""How fast `lite` sees: its image tower on ONNX Runtime against the same tower in torch, within one run."""

import numpy as np
from rich.console import Console

from benchmarks.clock import milliseconds

ROUNDS = 5


def measure(images: int = 32) -> list[tuple[str, float]]:
    """(what, figure) rows: milliseconds per image of both, with two threads each, and their ratio."""
    import torch

    from trimtab.encoders import load_encoder
    from trimtab.encoders.lite.towers import image_tower
    from trimtab.encoders.onnx import THREADS

    pixels = np.random.default_rng(0).integers(0, 256, (images, 224, 224, 3), dtype=np.uint8)
    lite, tower = load_encoder("lite"), image_tower()
    torch.set_num_threads(THREADS)

    def eager() -> None:
        with torch.inference_mode():
            tower(torch.from_numpy(pixels))

    # Taking turns, so that a disturbance of the machine hits both.
    onnx_ms, torch_ms = [], []
    for _ in range(ROUNDS):
        onnx_ms.append(milliseconds(lambda: lite.encode_images(pixels)) / images)
        torch_ms.append(milliseconds(eager) / images)
    best_onnx, best_torch = min(onnx_ms[1:]), min(torch_ms[1:])  # the first round warms up
    return [
        ("lite image tower, ONNX Runtime, ms per image", best_onnx),
        ("lite image tower, torch eager, ms per image", best_torch),
        ("torch eager / ONNX Runtime", best_torch / best_onnx),
    ]


def show(console: Console) -> None:
    """Measure and print the rows."""
    for what, figure in measure():
        console.print(f"{what:<50}{figure:8.2f}", highlight=False)


if __name__ == "__main__":
    show(Console())
