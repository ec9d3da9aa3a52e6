"""Antialiased resizing of RGB bytes: Pillow's arithmetic, bit for bit, several times as fast.

Pillow is what the field resizes with, so its result is the one to reproduce: a separable filter, first along the rows,
then along the columns, each in 22-bit fixed point with the intermediate image rounded to bytes. Its loops are scalar
and work on four channels. Here both passes are one loop, "weighted sums of whole lines", which the compiler vectorizes;
the pass along the rows gets its lines by turning a band of rows on its side first. Neither pass holds the GIL.

Rows always come first, as in every Pillow up to 12. Since Pillow 13 an image whose height shrinks much more than its
width has its columns done first, which moves some pixels by a level or more: features would depend on that version.

`window` computes only a part of the resized image, so that "resize, then crop the center" pays for the center alone.
`resize_crops` cuts many crops of one image, which is then turned on its side once for all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.compiled import njit

FRACTION_BITS = 22  # 32 bits less 8 of the byte and 2 of head-room for overshooting weights, as in Pillow
BAND_ROWS = 64  # a band turned on its side stays in the second-level cache for photographs of usual width

_compiled = njit(nogil=True)


class Box(NamedTuple):
    """A rectangle of pixels."""

    top: int
    left: int
    height: int
    width: int


def resize(image: NDArray[np.uint8], height: int, width: int, *, window: Box | None = None) -> NDArray[np.uint8]:
    """Resize the (H, W, 3) image to (height, width), bicubic, and return `window` of the result.

    Pixels outside `window` have an influence, as if it were cut out afterwards.
    """
    window = window or Box(0, 0, height, width)
    out = np.empty((window.height, window.width, 3), dtype=np.uint8)
    rows, row_weights = _taps(image.shape[0], height, window.top, window.height, True)
    columns, column_weights = _taps(image.shape[1], width, window.left, window.width, True)
    _resize(np.ascontiguousarray(image), columns, column_weights, rows, row_weights, out)
    return out


def resize_crops(
    image: NDArray[np.uint8], crops: Sequence[Box], mirrors: Sequence[bool], out: NDArray[np.uint8]
) -> None:
    """Fill `out`, (n, height, width, 3), with n crops of an image, resized (bilinear), left and right swapped or not.

    Pixels outside a crop have no influence on it, as if it had been cut out first. `out` must be C-contiguous.
    """
    boxes = np.array(crops, np.int64).reshape(-1, 4)
    _resize_crops(np.ascontiguousarray(image), boxes, np.array(mirrors, np.bool_), out)


@_compiled
def _taps(
    length: int, resized: int, first: int, count: int, cubic: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which of `length` pixels make output pixels first .. first + count - 1 of `resized`, and with what weights.

    Returns (count, 2): the first pixel and how many; and (count, most): fixed-point weights, zero past "how many".
    """
    step = length / resized
    stretch = max(step, 1.0)  # antialiasing: when shrinking, the filter spans as many more pixels
    support = (2.0 if cubic else 1.0) * stretch
    spans = np.empty((count, 2), np.int64)
    weights = np.zeros((count, int(np.ceil(support)) * 2 + 1), np.int32)
    exact = np.empty(weights.shape[1])
    for i in range(count):
        center = (first + i + 0.5) * step
        begin = max(int(center - support + 0.5), 0)
        taps = min(int(center + support + 0.5), length) - begin
        total = 0.0
        for k in range(taps):
            distance = abs((begin + k - center + 0.5) * (1.0 / stretch))
            if not cubic:
                weight = max(1.0 - distance, 0.0)
            elif distance < 1.0:  # Keys' cubic with a = -0.5
                weight = (1.5 * distance - 2.5) * distance * distance + 1.0
            elif distance < 2.0:
                weight = ((-0.5 * distance + 2.5) * distance - 4.0) * distance + 2.0
            else:
                weight = 0.0
            exact[k] = weight
            total += weight
        for k in range(taps):
            scaled = exact[k] / total * (1 << FRACTION_BITS)
            weights[i, k] = int(scaled - 0.5) if scaled < 0 else int(scaled + 0.5)
        spans[i, 0] = begin
        spans[i, 1] = taps
    return spans, weights


@_compiled
def _blend_lines(
    lines: NDArray[np.uint8],
    offset: int,
    spans: NDArray[np.int64],
    weights: NDArray[np.int32],
    blended: NDArray[np.uint8],
) -> None:
    """blended[i] = weighted sum of the lines that spans[i] names; line 0 is number `offset`."""
    width = lines.shape[1]
    total = np.empty(width, np.int32)
    for i in range(spans.shape[0]):
        total[:] = 1 << (FRACTION_BITS - 1)
        begin = spans[i, 0] - offset
        for k in range(spans[i, 1]):
            weight = weights[i, k]
            line = lines[begin + k]
            for x in range(width):
                total[x] += weight * np.int32(line[x])
        for x in range(width):
            blended[i, x] = min(max(total[x] >> FRACTION_BITS, 0), 255)


@_compiled
def _resize(
    image: NDArray[np.uint8],
    columns: NDArray[np.int64],
    column_weights: NDArray[np.int32],
    rows: NDArray[np.int64],
    row_weights: NDArray[np.int32],
    out: NDArray[np.uint8],
) -> None:
    """Both passes: first every needed row to its new width, then those rows to the new height."""
    first_row, last_row = rows[:, 0].min(), (rows[:, 0] + rows[:, 1]).max()
    first_column, last_column = columns[:, 0].min(), (columns[:, 0] + columns[:, 1]).max()
    wide = last_column - first_column
    count = columns.shape[0]
    narrowed = np.empty((last_row - first_row, count, 3), np.uint8)
    band = np.zeros((wide, BAND_ROWS * 3), np.uint8)
    blended = np.empty((count, BAND_ROWS * 3), np.uint8)
    for start in range(first_row, last_row, BAND_ROWS):
        height = min(BAND_ROWS, last_row - start)
        for y in range(height):
            row = image[start + y]
            for x in range(wide):
                pixel = first_column + x
                band[x, 3 * y] = row[pixel, 0]
                band[x, 3 * y + 1] = row[pixel, 1]
                band[x, 3 * y + 2] = row[pixel, 2]
        _blend_lines(band, first_column, columns, column_weights, blended)
        for y in range(height):
            target = narrowed[start - first_row + y]
            for x in range(count):
                target[x, 0] = blended[x, 3 * y]
                target[x, 1] = blended[x, 3 * y + 1]
                target[x, 2] = blended[x, 3 * y + 2]
    flat = narrowed.reshape((last_row - first_row, count * 3))
    _blend_lines(flat, first_row, rows, row_weights, out.reshape((out.shape[0], count * 3)))


@_compiled
def _resize_crops(
    image: NDArray[np.uint8], boxes: NDArray[np.int64], mirrors: NDArray[np.bool_], out: NDArray[np.uint8]
) -> None:
    """A column of the image is a line of the turned one, and a crop's rows are a part of each line."""
    height, width = out.shape[1], out.shape[2]
    turned = np.empty((image.shape[1], 3 * image.shape[0]), np.uint8)
    _turn(image.reshape((image.shape[0], 3 * image.shape[1])), turned)
    for n in range(boxes.shape[0]):
        top, left, tall, wide = boxes[n]
        rows, row_weights = _taps(tall, height, 0, height, False)
        columns, column_weights = _taps(wide, width, 0, width, False)
        if mirrors[n]:
            columns, column_weights = columns[::-1].copy(), column_weights[::-1].copy()
        blended = np.empty((width, 3 * tall), np.uint8)
        narrowed = np.empty((tall, 3 * width), np.uint8)
        _blend_lines(turned[:, 3 * top : 3 * (top + tall)], -left, columns, column_weights, blended)
        _turn(blended, narrowed)
        _blend_lines(narrowed, 0, rows, row_weights, out[n].reshape((height, 3 * width)))


@_compiled
def _turn(lines: NDArray[np.uint8], turned: NDArray[np.uint8]) -> None:
    """(a, 3 b) bytes of a x b pixels -> (b, 3 a): rows become columns."""
    for a in range(lines.shape[0]):
        for b in range(turned.shape[0]):
            turned[b, 3 * a] = lines[a, 3 * b]
            turned[b, 3 * a + 1] = lines[a, 3 * b + 1]
            turned[b, 3 * a + 2] = lines[a, 3 * b + 2]
