"""What the demo draws: accuracy along the stream, and what the caches hold when it ends."""

import io
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from trimtab.engine.bank import Bank
from trimtab.registry import DEFAULT_METHOD
from trimtab.study.outputs import made_by
from trimtab.study.plots.style import GREEN, VERMILLION, as_bytes, axes_for, look_of

RIGHT, WRONG, INK, PAPER = GREEN, VERMILLION, "#222222", "#FFFFFF"
THUMB, GAP, LABEL_WIDTH, HEADER = 44, 6, 118, 62


def accuracy_along_stream(correct: Mapping[str, NDArray[np.bool_]]) -> bytes:
    """A PNG: running accuracy of each method over the images seen so far, the default method and zero-shot in front."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.6), dpi=130, layout="constrained")
    axes = axes_for(figure.subplots())
    seen = np.arange(1, len(next(iter(correct.values()))) + 1)
    start = min(100, len(seen) // 10)  # the first few images say nothing yet
    ends = sorted((float(hits.mean()), name) for name, hits in correct.items())
    for height, (accuracy, name) in zip(_spread([100 * end[0] for end in ends]), ends, strict=True):
        color, _, line = look_of(name)
        front = name in ("zero_shot", DEFAULT_METHOD)
        running = 100 * np.cumsum(correct[name]) / seen
        axes.plot(seen[start:], running[start:], color=color, linestyle=line, linewidth=2.4 if front else 1.1)
        axes.annotate(
            f"{name}  {accuracy:.1%}",
            (1.01, height),
            xycoords=("axes fraction", "data"),
            color=color,
            va="center",
            fontsize=9,
            fontweight="bold" if front else "normal",
            annotation_clip=False,
        )
    axes.set_xlim(seen[start], seen[-1])
    axes.set_xlabel("images seen")
    axes.set_ylabel("accuracy so far, %")
    axes.set_title("CIFAR-10 through the lite encoder: no labels, no training", loc="left")
    return as_bytes(axes)


def _spread(values: Sequence[float], least: float = 1.1) -> list[float]:
    """Ascending heights for the labels, moved apart where lines end close to each other."""
    heights: list[float] = []
    for value in values:
        heights.append(max(value, heights[-1] + least) if heights else value)
    surplus = (heights[-1] - values[-1]) / 2
    return [height - surplus for height in heights]


def contact_sheet(
    bank: Bank,
    class_names: Sequence[str],
    labels: NDArray[np.int64],
    thumbnail: Callable[[int], NDArray[np.uint8]],
) -> bytes:
    """A PNG: one row per class with the images each cache holds, right ones in a frame, wrong ones in a crossed one."""
    widths = [span.stop - span.start for span in bank.sections.values()]
    width = LABEL_WIDTH + sum(w * (THUMB + 4) + 3 * GAP for w in widths)
    sheet = Image.new("RGB", (width, HEADER + len(class_names) * (THUMB + GAP) + GAP), PAPER)
    draw = ImageDraw.Draw(sheet)
    small, normal = ImageFont.load_default(13), ImageFont.load_default(15)
    left = LABEL_WIDTH
    for (name, span), count in zip(bank.sections.items(), widths, strict=True):
        held = bank.occupied[:, span] > 0
        right = (labels[bank.sources[:, span]] == np.arange(len(class_names))[:, None]) & held
        draw.text((left, 10), f"{name} cache", INK, normal)
        draw.text((left, 32), f"{right.sum()} of {held.sum()} right" if held.any() else "empty", INK, small)
        for row in range(len(class_names)):
            for column in range(count):
                if held[row, column]:
                    corner = (left + column * (THUMB + 4), HEADER + row * (THUMB + GAP))
                    picture = Image.fromarray(thumbnail(int(bank.sources[row, span.start + column])))
                    sheet.paste(picture.resize((THUMB, THUMB), Image.Resampling.BICUBIC), corner)
                    _frame(draw, corner, bool(right[row, column]))
        left += count * (THUMB + 4) + 3 * GAP
    for row, class_name in enumerate(class_names):
        draw.text((8, HEADER + row * (THUMB + GAP) + THUMB // 2 - 9), class_name, INK, normal)
    memory, maker = io.BytesIO(), PngInfo()
    maker.add_text("Software", made_by())
    sheet.save(memory, "png", pnginfo=maker)
    return memory.getvalue()


def _frame(draw: ImageDraw.ImageDraw, corner: tuple[int, int], right: bool) -> None:
    """Wrong ones are crossed as well as colored, so that the sheet can be read without colors."""
    x, y = corner
    color = RIGHT if right else WRONG
    draw.rectangle((x, y, x + THUMB - 1, y + THUMB - 1), outline=color, width=2 if right else 3)
    if not right:
        draw.line((x, y, x + 13, y + 13), fill=color, width=3)
        draw.line((x, y + 13, x + 13, y), fill=color, width=3)
