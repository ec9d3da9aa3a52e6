"""Tuned parameters: hyper-parameters that were chosen on some store's labels, and that say so forever."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimtab import arguments
from trimtab.study.bench.record import Count, Share
from trimtab.study.bench.sealed import Sealed

TUNED = Sealed("trimtab-tuned", 1, "a file of tuned parameters", "make it again with `trimtab tune`")


@dataclass(frozen=True)
class TunedParameters:
    """A method's parameters and where they come from.

    On the store whose fingerprint is `tuned_on` its figures are an oracle's; on any other they are not.
    """

    name: str
    method: str
    parameters: dict[str, Any]
    tuned_on: str  # fingerprint of a store
    dataset: str
    trials: Count
    oracle_accuracy: Share  # of the tuned parameters on the very stream they were chosen on
    default_accuracy: Share  # of the method's defaults on that stream

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        TUNED.write(Path(path).expanduser(), asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> "TunedParameters":
        """Read what `save` has written."""
        return TUNED.read(arguments.place("path", path), cls)
