"""Views per second: trimtab's ViewLoader against the loops that the field's data loaders run.

python -m benchmarks.view_speed [--views 32] [--images 64] [--rounds 5]

All start from the same JPEG bytes (photographs of 500 x 400 pixels, cut from scikit-learn's two sample pictures) and
end with the same uint8 views of 224 pixels: a plain Pillow loop; torch's `interpolate` on bytes, which is what the v2
transforms of torchvision call; and trimtab. A second table has one view of photographs of 12 megapixels. The rounds
alternate and medians count. On a busy machine several threads get a larger share than one, so look at the CPU time as
well. The views are compared before anything is timed.
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
from trimtab.images.views import content_number, enough_side, random_crop

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


def torch_views(file: bytes, views: int) -> Views:
    """The same crops by torch, on bytes: crop, antialiased `interpolate`, flip."""
    import torch

    def resized(part: torch.Tensor, tall: int, wide: int, mode: str) -> torch.Tensor:
        return torch.nn.functional.interpolate(part, size=(tall, wide), mode=mode, antialias=True)

    pixels = np.array(Image.open(io.BytesIO(file)).convert("RGB"))
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    height, width = image.shape[2:]
    shorter = min(width, height)
    wide, tall = SIZE * width // shorter, SIZE * height // shorter
    left, top = (wide - SIZE) // 2, (tall - SIZE) // 2
    made = [resized(image, tall, wide, "bicubic")[..., top : top + SIZE, left : left + SIZE]]
    number = content_number(pixels)
    for view in range(1, views):
        rng = np.random.default_rng([SEED, number, view])
        box = random_crop(rng, height, width, (0.08, 1.0))
        cut = image[..., box.top : box.top + box.height, box.left : box.left + box.width]
        cut = resized(cut, SIZE, SIZE, "bilinear")
        made.append(cut.flip(-1) if rng.random() < 0.5 else cut)
    return torch.cat(made).permute(0, 2, 3, 1).numpy()


def torch_loop(files: Sequence[bytes], views: int) -> list[Views]:
    return [torch_views(file, views) for file in files]


def pillow_loop(files: Sequence[bytes], views: int) -> list[Views]:
    return [pillow_views(file, views) for file in files]


def trimtab_loader(files: Sequence[bytes], views: int, workers: int) -> list[Views]:
    loader = ViewLoader(
        lambda index: decode(files[index], enough=enough_side(SIZE)),
        range(len(files)),
        size=SIZE,
        views=views,
        seed=SEED,
        workers=workers,
    )
    return [pixels for batch in loader for pixels in batch.pixels]


def large_photographs(count: int) -> list[bytes]:
    """JPEG files of 4000 x 3000 pixels: the same pictures, side by side until they are as large as a phone's."""
    from sklearn.datasets import load_sample_images

    files = []
    for number in range(count):
        picture = load_sample_images().images[number % 2]
        buffer = io.BytesIO()
        Image.fromarray(np.tile(picture, (8, 7, 1))[:3000, :4000]).save(buffer, "JPEG", quality=90)
        files.append(buffer.getvalue())
    return files


def show(console: Console, views: int = 32, images: int = 64, rounds: int = 5) -> None:
    """Compare the pixels, then the speed."""
    import torch

    torch.set_num_threads(1)
    few = photographs(4)
    theirs, ours = pillow_loop(few, views), trimtab_loader(few, views, usable_cores())
    title = f"{images} photographs of 500 x 400, {views} views of {SIZE}, {usable_cores()} cores"
    console.print(_table(title, photographs(images), views, rounds))
    differences = np.abs(np.stack(theirs).astype(int) - np.stack(ours))
    console.print(f"largest difference {differences.max()} levels, {(differences > 0).mean():.2%} of the bytes differ")
    console.print(_table("4 photographs of 4000 x 3000, 1 view", large_photographs(4), 1, rounds))


def _table(title: str, files: Sequence[bytes], views: int, rounds: int) -> Table:
    contestants: dict[str, Callable[[], list[Views]]] = {
        "Pillow loop, 1 thread": lambda: pillow_loop(files, views),
        "torch loop, 1 thread": lambda: torch_loop(files, views),
        "trimtab, 1 worker": lambda: trimtab_loader(files, views, 1),
        f"trimtab, {usable_cores()} workers": lambda: trimtab_loader(files, views, usable_cores()),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            started, cpu_started = time.perf_counter(), time.process_time()
            run()
            seconds[name].append(time.perf_counter() - started)
            cpu_seconds[name].append(time.process_time() - cpu_started)
    total = len(files) * views
    rates = {name: total / statistics.median(times) for name, times in seconds.items()}
    cpu = {name: 1000 * statistics.median(times) / total for name, times in cpu_seconds.items()}
    table = Table(title=title)
    for heading in ("", "views/s", "times", "CPU ms/view"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, rate in rates.items():
        table.add_row(name, f"{rate:,.0f}", f"{rate / rates['Pillow loop, 1 thread']:.2f}", f"{cpu[name]:.2f}")
    return table


def main() -> None:
    """The same with numbers of one's own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--views", type=int, default=32)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    show(Console(), **vars(parser.parse_args()))


if __name__ == "__main__":
    main()
