"""Whether "check 50" holds what it says, on real streams: `python -m benchmarks.serve_check`.

CIFAR-10 test images encoded by lite (the demo's store), a stream of the default method, and the last 256 images as the
page would have them at several moments. The true labels play the person. A check is drawn many times; counted is how
often its intervals hold the figures of all 256 images, and how wide they are; beside it, 50 images drawn at random.
"""

import random
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from trimtab.data.fetched.cifar import cifar10
from trimtab.encoders import load_encoder
from trimtab.features import FeatureStore
from trimtab.features.encode import encode_images
from trimtab.files import cache_folder
from trimtab.methods import make_method
from trimtab.registry import DEFAULT_METHOD
from trimtab.serve.history import RECENT
from trimtab.serve.page.check import SIZE, Candidate, Check, draw

IMAGES, DRAWS = 2000, 400
MOMENTS = range(RECENT, IMAGES + 1, RECENT)

Draw = Callable[[list[Candidate], int], Check]


def _store() -> FeatureStore:
    place = cache_folder("demo") / f"cifar10-lite-{IMAGES}"
    return encode_images(cifar10(), load_encoder("lite"), out=place, limit=IMAGES)


def _stratified(frame: list[Candidate], seed: int) -> Check:
    return draw(frame, 0.0, seed)


def _at_random(frame: list[Candidate], seed: int) -> Check:
    """As many images, whatever they are; the two kinds are what chance makes them."""
    chosen = random.Random(seed).sample(frame, SIZE)
    check = _stratified(chosen, seed)
    check.frame, check.flips = len(frame), sum(one.flip for one in frame)
    return check


def _row(frames: list[list[Candidate]], truth: dict[str, str], way: Draw) -> list[float]:
    held, widths = np.zeros(3), np.zeros(3)
    count = 0
    for frame in frames:
        true = [truth[one.id] for one in frame]
        answers = [
            float(np.mean([one.zero_shot == label for one, label in zip(frame, true, strict=True)])),
            float(np.mean([one.answer == label for one, label in zip(frame, true, strict=True)])),
        ]
        figures = [*answers, answers[1] - answers[0]]
        for seed in range(DRAWS):
            check = way(frame, seed)
            for index, asked in enumerate(check.asked):
                check.say(index, truth[asked.candidate.id])
            result = check.result()
            if result is None:
                continue
            count += 1
            for k, interval in enumerate((result.zero_shot, result.adapted, result.gain)):
                held[k] += interval.low <= figures[k] <= interval.high
                widths[k] += interval.high - interval.low
    return [*(100 * held / count), *(100 * widths / count)]


def show(console: Console) -> None:
    """Measure and print the table."""
    store = _store()
    stream = make_method(DEFAULT_METHOD).start(store.task())
    rows = np.array(store.rows(slice(None)), np.float32)
    found, names = stream.run(rows), store.class_names
    zero_shot = (rows[:, 0] @ store.text_prototypes.T).argmax(axis=1)
    truth = {f"0-{n}": names[label] for n, label in enumerate(store.labels)}
    seen = [Candidate(f"0-{n}", n + 1, names[found.labels[n]], names[zero_shot[n]]) for n in range(len(store))]
    frames = [seen[moment - RECENT : moment] for moment in MOMENTS]
    title = f"{len(frames)} moments, {DRAWS} checks of {SIZE} labels each; 95 % intended"
    table = Table(title=title, caption="share of intervals that hold the true figure, and their mean width in points")
    for column in ("sample", "zero-shot", "adapted", "difference", "width", "width", "width of the difference"):
        table.add_column(column, justify="left" if column == "sample" else "right")
    for name, way in (("half flips", _stratified), ("at random", _at_random)):
        table.add_row(name, *(f"{value:.1f}" for value in _row(frames, truth, way)))
    console.print(table)


if __name__ == "__main__":
    show(Console(width=110))
