"""The record of a run: one JSON file, versioned, that holds everything a table or a figure needs.

docs/benchmark.md documents every field; the types below are the schema, and reading checks them. Which images were
right is kept as packed bits, so that methods can be compared image by image afterwards: 50,000 images take 8 KB.
"""

import base64
import binascii
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.study.bench.sealed import Sealed

RECORD = Sealed("trimtab-run", 2, "the record of a run", "run the same `trimtab bench` again to renew it")
DONE, FAILED = "done", "failed"
SCORES = ("accuracy", "top5", "ece", "nll", "brier")
STEP_MS = ("p50", "p90", "p99")
NEAR = 1e-9  # the accuracy of a record is that of its own images

# What a field may hold; checked when a record is read.
Count = Annotated[int, Meta(ge=0)]
Size = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Amount = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True)
class About:
    """What was run: the same in every record of a run, whether it went well or not."""

    dataset: str
    store: str
    store_fingerprint: str
    task_fingerprint: str  # class names, text prototypes and logit scale: what "the same prompts" means
    encoder: str
    prompts: str
    class_names: list[str]
    images: Size
    views: Size
    dim: Size
    method: str
    variant: str
    parameters: dict[str, Any]
    order: str
    seed: int
    weights: Annotated[str, Meta(pattern="^(fixed|auto|oracle)$")]
    tuned_on: str = ""
    images_fingerprint: str = ""  # names, labels and domains of the images: equal in stores of other encoders or views

    @property
    def uses_labels(self) -> bool:
        """Whether the figure owes something to the labels it is measured on: then it is an oracle's."""
        return self.weights == "oracle" or self.tuned_on == self.store_fingerprint


@dataclass(frozen=True)
class Cost:
    """What a run took, on one thread."""

    seconds: Amount
    images_per_second: Amount
    step_ms: dict[str, Amount]  # percentiles of the time that one image takes when it comes alone
    peak_memory_mb: Amount  # of the whole process
    state_mb: Amount  # of what the method keeps
    gflops_per_image: Amount | None  # counted by formula, without encoding the views; None: no formula for this method
    text_encoder_gflops: Amount | None = None  # how much of it is the text encoder's, where prompts are tuned
    views_per_image: Amount | None = None  # that were worth encoding under a view budget, on average; None: no budget


@dataclass(frozen=True)
class Record:
    """One run under one way of weighing. Figures are empty in a failed one, which says why in `reason`."""

    about: About
    status: Annotated[str, Meta(pattern="^(done|failed)$")] = DONE
    reason: str = ""
    weight_values: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)  # accuracy, top5, ece, nll, brier
    recall: list[Share | None] = field(default_factory=list)
    reliability: dict[str, list[Count | Amount]] = field(default_factory=dict)
    along: dict[str, list[Count | Amount]] = field(default_factory=dict)
    correct: str = ""  # base64 of packed bits, in the order of the stream
    labeled: Count = 0  # how many bits of `correct` count
    compactness: Amount | None = None  # of the store; only in zero-shot's record
    cost: Cost | None = None
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    finished: str = ""

    @property
    def ok(self) -> bool:
        """Whether the run went well."""
        return self.status == DONE

    @property
    def accuracy(self) -> float:
        """Top-1 accuracy, 0 to 1."""
        return self.scores["accuracy"]

    def correct_images(self) -> NDArray[np.bool_]:
        """(labeled images,): which were right, in the order of the stream."""
        bits = np.frombuffer(base64.b64decode(self.correct), np.uint8)
        return np.unpackbits(bits, count=self.labeled).astype(np.bool_)


def packed(correct: NDArray[np.bool_]) -> str:
    """Booleans as text."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


def write_record(record: Record, path: Path) -> None:
    """Write a record whole or not at all."""
    RECORD.write(path, {"oracle": record.about.uses_labels, **asdict(record)})


def read_record(path: Path) -> Record:
    """A record, or one sentence on why it cannot be trusted."""
    path = arguments.place("path", path)
    record = RECORD.read(path, Record)
    for place, fits, problem in _what_must_fit(record) if record.ok else ():
        if not fits:
            raise RECORD.damaged(path, place, problem)
    return record


def _what_must_fit(record: Record) -> list[tuple[str, bool, str]]:
    """(field, whether it fits the others, what is wrong if not): what types alone cannot say of a finished run."""
    about = record.about
    bins = [len(record.reliability.get(name, ())) for name in ("confidence", "accuracy", "count")]
    places = [len(record.along.get(name, ())) for name in ("images", "accuracy")]
    bits = _bytes_of(record.correct)
    held = bits is not None and len(bits) == -(-record.labeled // 8)
    right = record.correct_images().mean() if held and record.labeled else -1.0
    return [
        ("scores", set(record.scores) == set(SCORES), f"it does not hold {', '.join(SCORES)}"),
        ("recall", len(record.recall) == len(about.class_names), "it has another length than about.class_names"),
        ("reliability", len(set(bins)) == 1 and bins[0] > 0, "its lists are missing or of different lengths"),
        ("along", len(set(places)) == 1 and places[0] > 0, "its lists are missing or of different lengths"),
        ("labeled", 0 < record.labeled <= about.images, f"{record.labeled} of {about.images} images cannot be"),
        ("correct", held, f"it is not the packed bits of {record.labeled} images"),
        ("scores.accuracy", abs(right - record.scores.get("accuracy", 0)) < NEAR, "it is not that of the images"),
        ("cost", record.cost is not None and set(record.cost.step_ms) == set(STEP_MS), "its figures are missing"),
    ]


def _bytes_of(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
