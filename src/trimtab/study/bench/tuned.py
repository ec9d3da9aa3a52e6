"""Tuned parameters: hyper-parameters that were chosen on some store's labels, and that say so forever."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import write_whole

FORMAT = "trimtab-tuned"
VERSION = 1


@dataclass(frozen=True)
class TunedParameters:
    """A method's parameters and where they come from.

    On the store whose fingerprint is `tuned_on` its figures are an oracle's; on any other they are not.
    """

    name: str
    method: str
    parameters: Mapping[str, Any]
    tuned_on: str  # fingerprint of a store
    dataset: str
    trials: int
    oracle_accuracy: float  # of the tuned parameters on the very stream they were chosen on
    default_accuracy: float  # of the method's defaults on that stream

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        target = Path(path).expanduser()
        target.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        write_whole(target, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | Path) -> "TunedParameters":
        """Read what `save` has written."""
        source = arguments.place("path", path)
        try:
            content = json.loads(source.read_bytes())
            kind, version = content.pop("format"), content.pop("version")
            found = cls(**content) if (kind, version) == (FORMAT, VERSION) else None
        except OSError as error:
            raise TrimtabError(f"{source} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TrimtabError(f"{source} does not hold tuned parameters; make them with `trimtab tune`.") from None
        if found is None:
            raise TrimtabError(
                f"{source} is {kind!r} of version {version}, not {FORMAT!r} of version {VERSION}; "
                "make it again with `trimtab tune`."
            )
        return found
