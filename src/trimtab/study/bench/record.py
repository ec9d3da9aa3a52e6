"""The record of a run: one JSON file, versioned, that holds everything a table or a figure needs.

docs/benchmark.md documents every field. Which images were right is kept as packed bits, so that methods can be compared
image by image afterwards: 50,000 images take 8 KB.
"""

import base64
import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import write_whole

FORMAT = "trimtab-run"
VERSION = 2
DONE, FAILED = "done", "failed"


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
    images: int
    views: int
    dim: int
    method: str
    variant: str
    parameters: dict[str, Any]
    order: str
    seed: int
    weights: str
    tuned_on: str = ""

    @property
    def uses_labels(self) -> bool:
        """Whether the figure owes something to the labels it is measured on: then it is an oracle's."""
        return self.weights == "oracle" or self.tuned_on == self.store_fingerprint


@dataclass(frozen=True)
class Cost:
    """What a run took, on one thread."""

    seconds: float
    images_per_second: float
    step_ms: dict[str, float]  # percentiles of the time that one image takes when it comes alone
    peak_memory_mb: float  # of the whole process
    state_mb: float  # of what the method keeps
    gflops_per_image: float | None  # counted by formula, without the encoder; None: no formula for this method


@dataclass(frozen=True)
class Record:
    """One run under one way of weighing. Figures are empty in a failed one, which says why in `reason`."""

    about: About
    status: str = DONE
    reason: str = ""
    weight_values: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)  # accuracy, top5, ece, nll, brier
    recall: list[float | None] = field(default_factory=list)
    reliability: dict[str, list[float]] = field(default_factory=dict)
    along: dict[str, list[float]] = field(default_factory=dict)
    correct: str = ""  # base64 of packed bits, in the order of the stream
    labeled: int = 0  # how many bits of `correct` count
    compactness: float | None = None  # of the store; only in zero-shot's record
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
    content = {"format": FORMAT, "version": VERSION, "oracle": record.about.uses_labels, **asdict(record)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(_without_nan(content), indent=1, ensure_ascii=False).encode())


def read_record(path: Path) -> Record:
    """A record, or one sentence on why it cannot be trusted."""
    path = arguments.place("path", path)
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise TrimtabError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise TrimtabError(f"{path} is not JSON (cut off or damaged); delete it and run the benchmark again.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TrimtabError(f"{path} is not the record of a run; give a folder that `trimtab bench` has written.")
    if content.get("version") != VERSION:
        raise TrimtabError(
            f"{path} has record format {content.get('version')}, this trimtab reads {VERSION}; "
            "use the version that wrote it, or run the benchmark again."
        )
    try:
        values = {part.name: content[part.name] for part in fields(Record)}
        values["about"] = About(**values["about"])
        values["cost"] = None if values["cost"] is None else Cost(**values["cost"])
        return Record(**values)
    except (KeyError, TypeError):
        raise TrimtabError(f"{path} is damaged (fields are missing); delete it and run the benchmark again.") from None


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: null stands for it."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
