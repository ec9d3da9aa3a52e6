"""The way from files to adapted labels against the bare encoder: `Classifier.classify_many` on CIFAR-10 with `lite`.

python -m benchmarks.classify_speed [--images 2000]

The bare encoder gets pixels that are decoded, resized and stacked already; it is the speed that cannot be passed while
every image is encoded. Both take turns on the same images, so that a disturbance of the machine hits both.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console

TURNS = 4


def show(console: Console, images: int = 2000) -> None:
    """Measure and print images per second of both, and of one image at a time."""
    from trimtab.classifier import Classifier
    from trimtab.data.catalog import load_dataset
    from trimtab.encoders import load_encoder
    from trimtab.images.views import resize_shorter_and_crop

    data, encoder = load_dataset("cifar10", None), load_encoder("lite")
    chosen = np.random.default_rng(0).choice(len(data), images, replace=False)
    many, single = (Classifier(encoder, data.class_names) for _ in range(2))
    names = ("bare encoder", "classify_many, from files", "classify, from files")
    seconds, cpu_seconds = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    with tempfile.TemporaryDirectory() as scratch:
        for turn, part in enumerate([chosen[:32], *np.array_split(chosen, TURNS)]):
            files = [Path(scratch) / f"{turn}-{index}.png" for index in part]
            for file, index in zip(files, part, strict=True):
                Image.fromarray(data.load(int(index))).save(file)
            pixels = np.stack([resize_shorter_and_crop(data.load(int(index)), encoder.input_size) for index in part])
            works: list[Callable[[], object]] = [
                lambda pixels=pixels: encoder.encode_images(pixels),  # type: ignore[misc]
                lambda files=files: list(many.classify_many(files)),  # type: ignore[misc]
                lambda files=files: [single.classify(file) for file in files],  # type: ignore[misc]
            ]
            for name, work in zip(names, works, strict=True):
                start, cpu_start = time.perf_counter(), time.process_time()
                work()
                if turn:  # the first warms up
                    seconds[name] += time.perf_counter() - start
                    cpu_seconds[name] += time.process_time() - cpu_start
    for name, taken in seconds.items():
        share, cpu = seconds["bare encoder"] / taken, 1e3 * cpu_seconds[name] / images
        figures = f"{images / taken:8.1f} images/s{share:8.1%} of the bare encoder{cpu:8.2f} ms of CPU per image"
        console.print(f"{name:<30}{figures}", highlight=False, soft_wrap=True)


def main() -> None:
    """The same with a number of one's own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=2000)
    show(Console(), **vars(parser.parse_args()))


if __name__ == "__main__":
    main()
