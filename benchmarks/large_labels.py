"""Label sets of 21,000 and 100,000 classes: time against the bare text product, and memory.

    python -m benchmarks.large_labels CLASSES IMAGES [METHOD]

CLIP-like synthetic features, 512 dimensions, one view; each size in a process of its own, so that the peak of memory is
its own. Images come from all classes alike, the hardest case: nearly every image opens a class. Times are those of the
second half of the images, in milliseconds per image; memory in MB.
"""

import resource
import time

import numpy as np

from benchmarks.command_line import method_name, run_study, whole
from benchmarks.synthetic import LOGIT_SCALE
from trimtab import Task, make_method, run_top
from trimtab.engine.arrays import Array

DIM, BLOCK = 512, 64


def unit(rows: Array) -> Array:
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def main(classes: int, images: int, method: str) -> None:
    rng = np.random.default_rng(0)
    # Texts in a cone of their own, images in another: cosines about 0.2 with a class's text, as CLIP's are.
    cone, other = unit(rng.normal(size=(2, DIM)).astype(np.float32))
    text = unit(rng.normal(size=(classes, DIM)).astype(np.float32) / DIM**0.5 + 1.2 * cone)
    shown = rng.integers(classes, size=images)
    noise = rng.normal(size=(images, DIM)).astype(np.float32) / DIM**0.5
    features = unit(0.9 * (text[shown] - 0.77 * cone) + 0.8 * other + 0.6 * noise)
    task = Task([str(c) for c in range(classes)], text, LOGIT_SCALE)
    del text
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    make_method(method).start(task).run(features[:BLOCK])  # compiles
    bare, adapted = [], []
    stream = make_method(method).start(task)
    for start in range(0, images, BLOCK):  # side by side, so that a shared machine slows both alike
        block = features[start : start + BLOCK]
        begin = time.perf_counter()
        block @ task.text_prototypes.T
        bare.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        found = run_top(stream, block, k=5)
        adapted.append(time.perf_counter() - begin)
    half = len(bare) // 2  # when many classes hold something
    each = [1000 * float(np.sum(times[half:])) / (images - half * BLOCK) for times in (bare, adapted)]
    held = getattr(next(iter(stream.state.banks())), "used_rows", classes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"| {classes:,} | {method} | {images:,} | {held:,} | {each[0]:.2f} | {each[1]:.2f} | {each[1] / each[0]:.1f} | "
        f"{peak:,.0f} | {before:,.0f} |"
    )
    assert len(found)


if __name__ == "__main__":
    run_study(main, __doc__, whole("CLASSES"), whole("IMAGES"), method_name("mcp"))
