"""What a lower precision buys: the image tower of a CLIP of ViT-B/16's size and `lite`'s, within one run.

Processor time on one thread, the best of several rounds that take turns: other programs on the machine change it least.
"""

import io
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.clip_size import write_clip
from benchmarks.view_speed import photographs

ROUNDS = 5
Encode = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def show(console: Console) -> None:
    """Measure and print both tables."""
    import torch

    from trimtab.encoders import onnx

    torch.set_num_threads(1)
    onnx.THREADS = 1
    with tempfile.TemporaryDirectory() as scratch:
        pixels = _pictures()
        console.print(_table("CLIP of ViT-B/16's size", _clips(Path(scratch), pixels), pixels[:2]))
        pixels = _many_pictures()
        console.print(_table("lite", _lites(Path(scratch), pixels), pixels[:16]))


def _pictures() -> NDArray[np.uint8]:
    from trimtab.images.decode import decode
    from trimtab.images.views import resize_shorter_and_crop

    return np.stack([resize_shorter_and_crop(decode(file), 224) for file in photographs(32)])


def _many_pictures() -> NDArray[np.uint8]:
    """Of CIFAR-10. Parts of two photographs are too alike: one close call between two names decides over an export."""
    from trimtab.data.catalog import load_dataset
    from trimtab.images.views import resize_shorter_and_crop

    data = load_dataset("cifar10", None)
    return np.stack([resize_shorter_and_crop(data.load(number), 224) for number in range(256)])


def _clips(scratch: Path, pixels: NDArray[np.uint8]) -> dict[str, Encode]:
    from trimtab.encoders import load_encoder
    from trimtab.encoders.onnx_export import write_onnx_folder
    from trimtab.encoders.torch_encoder import TorchEncoder

    name = f"hf:{write_clip(scratch / 'clip')}"
    found: dict[str, Encode] = {}
    for precision in ("fp32", "bf16", "int8"):
        found[f"torch, {precision}"] = load_encoder(name, precision=precision).encode_images
    original = load_encoder(name)
    assert isinstance(original, TorchEncoder)
    with redirect_stdout(io.StringIO()):
        write_onnx_folder(original, scratch / "fp32")
        write_onnx_folder(original, scratch / "int8", precision="int8", images=pixels)
    for precision in ("fp32", "int8"):
        found[f"ONNX Runtime, {precision}"] = load_encoder(f"onnx:{scratch / precision}").encode_images
    return found


def _lites(scratch: Path, pixels: NDArray[np.uint8]) -> dict[str, Encode]:
    from trimtab.encoders import load_encoder
    from trimtab.encoders.lite import LiteEncoder
    from trimtab.encoders.onnx_export import write_onnx_folder

    with redirect_stdout(io.StringIO()):
        write_onnx_folder(LiteEncoder().in_torch(), scratch / "lite", precision="int8", images=pixels)
    return {
        "ONNX Runtime, fp32": LiteEncoder().encode_images,
        "ONNX Runtime, int8": load_encoder(f"onnx:{scratch / 'lite'}").encode_images,
    }


def _table(title: str, encoders: dict[str, Encode], pixels: NDArray[np.uint8]) -> Table:
    """Milliseconds per image, times faster than fp32 of the same runtime, and the least cosine with it."""
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    features: dict[str, NDArray[np.float32]] = {}
    for _ in range(ROUNDS):
        for name, encode in encoders.items():
            start = time.process_time()
            features[name] = encode(pixels)
            seconds[name].append(time.process_time() - start)
    table = Table(title=title)
    for heading in ("", "CPU ms per image", "times", "least cosine with fp32"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name in encoders:
        exact = f"{name.split(',')[0]}, fp32"
        cosine = float(np.sum(features[name] * features[exact], axis=1).min())
        best = min(seconds[name])
        times = min(seconds[exact]) / best
        table.add_row(name, f"{1e3 * best / len(pixels):.1f}", f"{times:.2f}", f"{cosine:.5f}")
    return table


if __name__ == "__main__":
    show(Console())
