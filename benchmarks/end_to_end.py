"""From image files to adapted labels: images per second and peak memory of several programs, in one run.

python -m benchmarks.end_to_end [--images 12] [--labels 100]

All have the same weights (a CLIP of ViT-B/16's size, random: as slow as the real one), the same JPEG files and the same
labels. Random weights teach lazy views nothing: their row says what a stream costs where views do not prove useful, and
the budget bounds it elsewhere. Each runs in a process of its own; loading and one image to warm up are not counted. On
a machine that others use as well, look at the processor time rather than at the clock.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.clip_size import write_clip
from benchmarks.view_speed import photographs

MANY_VIEWS, VIEW_BUDGET = 32, 4
Run = Callable[[Sequence[Path]], int]  # files -> how many views were encoded; each file gets a label


def hugging_face_pipeline(checkpoint: Path, names: Sequence[str]) -> Run:
    """As the documentation shows it: the labels are given, and encoded, with each call."""
    from transformers import pipeline

    classify = pipeline("zero-shot-image-classification", model=str(checkpoint))
    return lambda files: sum(bool(classify(str(file), candidate_labels=list(names))) for file in files)  # one view


def plain_loop(checkpoint: Path, names: Sequence[str]) -> Run:
    """The loop of open_clip's examples, on the same weights: texts once, then decode, resize, encode, softmax."""
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, CLIPModel

    model = CLIPModel.from_pretrained(checkpoint).eval()
    tokens = AutoTokenizer.from_pretrained(checkpoint)(
        [f"a photo of a {name}." for name in names], return_tensors="pt", padding=True
    )
    mean, deviation = torch.tensor([0.4815, 0.4578, 0.4082]), torch.tensor([0.2686, 0.2613, 0.2758])

    def features(output: Any) -> torch.Tensor:
        found = output if isinstance(output, torch.Tensor) else output.pooler_output
        return torch.nn.functional.normalize(found, dim=-1)

    def run(files: Sequence[Path]) -> int:
        with torch.inference_mode():
            for file in files:
                image = Image.open(file).convert("RGB")
                scale = 224 / min(image.size)
                image = image.resize([round(scale * side) for side in image.size], Image.Resampling.BICUBIC)
                left, top = (image.width - 224) // 2, (image.height - 224) // 2
                pixels = np.asarray(image.crop((left, top, left + 224, top + 224)))
                scaled = ((torch.from_numpy(pixels.copy()) / 255 - mean) / deviation).permute(2, 0, 1)[None]
                (100 * features(model.get_image_features(pixel_values=scaled)) @ text.T).softmax(dim=-1).argmax()
        return len(files)  # one view of each

    with torch.inference_mode():
        text = features(model.get_text_features(**tokens))
    return run


def trimtab(
    encoder: str, names: Sequence[str], precision: str = "fp32", views: int = 1, view_budget: float | None = None
) -> Run:
    """`Classifier.classify_many` with MCP."""
    from trimtab.classifier import Classifier
    from trimtab.encoders import load_encoder

    chosen = load_encoder(encoder, precision=precision)
    classifier = Classifier(chosen, names, views=views, view_budget=view_budget)
    encoded = 0
    encode = chosen.encode_images

    def counted(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        nonlocal encoded
        encoded += len(pixels)
        return encode(pixels)

    chosen.encode_images = counted  # type: ignore[method-assign]

    def run(files: Sequence[Path]) -> int:
        before = encoded
        assert sum(1 for _ in classifier.classify_many(files)) == len(files)
        return encoded - before

    return run


# name -> (how to make it of (checkpoint, its ONNX exports, class names), divides the number of images)
CONTESTANTS: dict[str, tuple[Callable[[Path, Path, Sequence[str]], Run], int]] = {
    "Hugging Face pipeline": (lambda clip, _, names: hugging_face_pipeline(clip, names), 4),
    "plain loop (open_clip style)": (lambda clip, _, names: plain_loop(clip, names), 1),
    "trimtab, hf: fp32": (lambda clip, _, names: trimtab(f"hf:{clip}", names), 1),
    "trimtab, hf: bf16": (lambda clip, _, names: trimtab(f"hf:{clip}", names, "bf16"), 1),
    "trimtab, hf: int8": (lambda clip, _, names: trimtab(f"hf:{clip}", names, "int8"), 1),
    "trimtab, onnx: fp32": (lambda _, onnx, names: trimtab(f"onnx:{onnx / 'fp32'}", names), 1),
    "trimtab, onnx: int8": (lambda _, onnx, names: trimtab(f"onnx:{onnx / 'int8'}", names), 1),
    f"trimtab, onnx: int8, at most {VIEW_BUDGET} of {MANY_VIEWS} views on average": (
        lambda _, onnx, names: trimtab(f"onnx:{onnx / 'int8'}", names, views=MANY_VIEWS, view_budget=VIEW_BUDGET),
        1,
    ),
    f"trimtab, onnx: int8, {MANY_VIEWS} views": (
        lambda _, onnx, names: trimtab(f"onnx:{onnx / 'int8'}", names, views=MANY_VIEWS),
        6,
    ),
}


def measure(name: str, folder: Path, labels: int) -> dict[str, float]:
    """One contestant, in this process: seconds per image by the clock and of the processor, megabytes at the peak."""
    from trimtab.study.bench.measures import peak_memory_mb

    make, divisor = CONTESTANTS[name]
    files = sorted((folder / "photos").iterdir())
    run = make(folder / "clip", folder, class_names(labels))
    run(files[:1])
    chosen = files[: max(2, len(files) // divisor)]
    start, cpu_start = time.perf_counter(), time.process_time()
    views = run(chosen)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu_start
    done = len(chosen)
    return {"seconds": seconds / done, "cpu": cpu / done, "megabytes": peak_memory_mb(), "views": views / done}


def class_names(count: int) -> list[str]:
    from trimtab.encoders.lite.sources import CLASS_NAMES

    return list(islice(CLASS_NAMES.read_text(encoding="utf-8").splitlines(), count))


def prepare(folder: Path, images: int) -> None:
    """The checkpoint, its two exports and the photographs; what is there stays."""
    from trimtab.encoders import load_encoder
    from trimtab.encoders.onnx_export import write_onnx_folder
    from trimtab.encoders.torch_encoder import TorchEncoder
    from trimtab.images.decode import decode
    from trimtab.images.views import resize_shorter_and_crop

    clip = write_clip(folder / "clip")
    (folder / "photos").mkdir(exist_ok=True)
    for number, file in enumerate(photographs(images)):
        (folder / "photos" / f"{number:03}.jpg").write_bytes(file)
    if not (folder / "int8").exists():
        original = load_encoder(f"hf:{clip}")
        assert isinstance(original, TorchEncoder)
        shown = np.stack([resize_shorter_and_crop(decode(file), 224) for file in photographs(16)])
        write_onnx_folder(original, folder / "fp32")
        write_onnx_folder(original, folder / "int8", precision="int8", images=shown)


def show(console: Console, folder: Path, images: int = 12, labels: int = 100) -> None:
    """Measure every contestant and print the table."""
    prepare(folder, images)
    found: dict[str, dict[str, float]] = {}
    for name in CONTESTANTS:
        command = [sys.executable, "-m", "benchmarks.end_to_end", "--folder", str(folder), "--only", name]
        done = subprocess.run([*command, "--labels", str(labels)], capture_output=True, text=True)
        if done.returncode:
            console.print(f"{name}: {done.stderr.strip().splitlines()[-1]}", markup=False)
            continue
        found[name] = json.loads(done.stdout.splitlines()[-1])
    console.print(_table(found.items(), labels))


def _table(rows: Iterable[tuple[str, dict[str, float]]], labels: int) -> Table:
    table = Table(title=f"From files to labels: ViT-B/16's size, {labels} labels")
    for heading in ("", "views", "images/s", "times", "CPU ms per image", "times", "peak MB"):
        table.add_column(heading, justify="left" if not heading else "right")
    first: dict[str, float] | None = None
    for name, figures in rows:
        first = first or figures
        faster, cheaper = (f"{first[kind] / figures[kind]:.1f}" for kind in ("seconds", "cpu"))
        rate, cpu, peak = 1 / figures["seconds"], 1e3 * figures["cpu"], figures["megabytes"]
        table.add_row(name, f"{figures['views']:.2g}", f"{rate:.2f}", faster, f"{cpu:,.0f}", cheaper, f"{peak:,.0f}")
    return table


def main() -> None:
    """The table; or, with --only, one row of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where checkpoint and exports are kept between runs")
    parser.add_argument("--only", choices=tuple(CONTESTANTS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measure(given.only, given.folder, given.labels)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        show(Console(width=110), folder, given.images, given.labels)


if __name__ == "__main__":
    main()
