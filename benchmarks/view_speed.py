"""Views per second: trimtab's ViewLoader against the plain Pillow loop that the field's data loaders run.

python -m benchmarks.view_speed [--views 32] [--images 64] [--rounds 5]

Both start from the same JPEG bytes (photographs of 500 x 400 pixels, cut from scikit-learn's two sample pictures) and
end with the same uint8 views of 224 pixels. The rounds alternate and medians count. On a busy machine several threads
get a larger share than one, so look at the CPU time as well. The views are compared before anything is timed.
"""

import argparse
import io
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from rich.table import Table

from trimtab.images.decode import decode
from trimtab.images.loader import ViewLoader, usable_cores
from trimtab.images.views import content_number, random_crop

SIZE, SEED = 224, 0
Views = NDArray[np.uint8]


def photographs(count: int) -> list[bytes]:
    """`count` JPEG files of 500 x 400 pixels, each another part of a real photograph."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(SEED)
    files = []
    for number in range(count):
        picture = load_sample_images().images[number % 2]
        top, left = rng.integers(picture.shape[0] - 400), rng.integers(picture.shape[1] - 500)
        buffer = io.BytesIO()
        Image.fromarray(picture[top : top + 400, left : left + 500]).save(buffer, "JPEG", quality=90)
        files.append(buffer.getvalue())
    return files


def pillow_views(file: bytes, views: int) -> Views:
    """The plain loop: decode once, then crop, resize and flip with Pillow, one view after the other."""
    image = Image.open(io.BytesIO(file)).convert("RGB")
    width, height = image.size
    shorter = min(width, height)
    wide, tall = SIZE * width // shorter, SIZE * height // shorter
    left, top = (wide - SIZE) // 2, (tall - SIZE) // 2
    plain = image.resize((wide, tall), Image.Resampling.BICUBIC).crop((left, top, left + SIZE, top + SIZE))
    made = [np.asarray(plain)]
    number = content_number(np.asarray(image))
    for view in range(1, views):
        rng = np.random.default_rng([SEED, number, view])
        box = random_crop(rng, height, width, (0.08, 1.0))
        cut = image.crop((box.left, box.top, box.left + box.width, box.top + box.height))
        cut = cut.resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        if rng.random() < 0.5:
            cut = cut.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        made.append(np.asarray(cut))
    return np.stack(made)


def pillow_loop(files: Sequence[bytes], views: int) -> list[Views]:
    return [pillow_views(file, views) for file in files]


def trimtab_loader(files: Sequence[bytes], views: int, workers: int) -> list[Views]:
    loader = ViewLoader(
        lambda index: decode(files[index]), range(len(files)), size=SIZE, views=views, seed=SEED, workers=workers
    )
    return [pixels for batch in loader for pixels in batch.pixels]


def show(console: Console, views: int = 32, images: int = 64, rounds: int = 5) -> None:
    """Compare the pixels, then the speed."""
    files, cores = photographs(images), usable_cores()

    contestants: dict[str, Callable[[], list[Views]]] = {
        "Pillow loop, 1 thread": lambda: pillow_loop(files, views),
        "trimtab, 1 worker": lambda: trimtab_loader(files, views, 1),
        f"trimtab, {cores} workers": lambda: trimtab_loader(files, views, cores),
    }
    theirs, ours = pillow_loop(files[:4], views), trimtab_loader(files[:4], views, cores)
    differences = np.abs(np.stack(theirs).astype(int) - np.stack(ours))
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            started, cpu_started = time.perf_counter(), time.process_time()
            run()
            seconds[name].append(time.perf_counter() - started)
            cpu_seconds[name].append(time.process_time() - cpu_started)

    total = images * views
    rates = {name: total / statistics.median(times) for name, times in seconds.items()}
    cpu = {name: 1000 * statistics.median(times) / total for name, times in cpu_seconds.items()}
    table = Table(title=f"{images} photographs of 500 x 400, {views} views of {SIZE}, {cores} cores")
    for heading in ("", "views/s", "times", "CPU ms/view"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, rate in rates.items():
        table.add_row(name, f"{rate:,.0f}", f"{rate / rates['Pillow loop, 1 thread']:.2f}", f"{cpu[name]:.2f}")
    console.print(table)
    console.print(f"largest difference {differences.max()} levels, {(differences > 0).mean():.2%} of the bytes differ")


def main() -> None:
    """The same with numbers of one's own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--views", type=int, default=32)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    show(Console(), **vars(parser.parse_args()))


if __name__ == "__main__":
    main()
