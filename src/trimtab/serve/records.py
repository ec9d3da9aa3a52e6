"""What is asked of a stream, what it answers, and the record of a change as the journal keeps it."""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from trimtab.engine.arrays import Array
from trimtab.serve.refusals import Damaged

LOOK = "look-"  # how ids begin of images that were looked at and not taken in
_as_text = json.JSONEncoder(separators=(",", ":")).encode  # `json.dumps` would make one for each record
HEADER = struct.Struct("<II")  # bytes of JSON, bytes of rows


@dataclass(frozen=True, eq=False)
class Request:
    """An image to classify: (V, d) features of its views, and what is known of it.

    `key` makes a repeat harmless: the same key with the same `digest` (by default, of the features) gets the first
    answer again. `source` says who sent it. `picture` is a small image file to show later, where thumbnails are kept.
    """

    features: Array
    learn: bool = True
    key: str | None = None
    digest: str | None = None
    source: str | None = None
    picture: bytes | None = None

    @property
    def body(self) -> str:
        """What a repeated key must repeat."""
        if self.digest is not None:
            return self.digest
        return hashlib.blake2b(np.ascontiguousarray(self.features).tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Guess:
    """A label and its probability."""

    label: str
    score: float


@dataclass(frozen=True, eq=False)
class Answer:
    """What a stream says of one image."""

    id: str
    label: str
    score: float  # the label's probability
    clearness: float  # by how much it exceeds the second: for thresholds
    probabilities: Array  # (C,), in the labels' order
    zero_shot: Guess  # what the frozen encoder says of the plain view
    parts: Mapping[str, Guess]  # the best label of each of the method's parts that has something to say
    agree: bool  # whether all parts that have something to say name the label
    doubt: float  # the probability that it shows none of the labels, where a guard asks for that
    seen: int  # images that the stream has taken in by now
    version: int  # changes of the stream by now, of whatever kind; never goes back
    learned: bool
    why_not: str  # a sentence, if nothing was learned
    replayed: bool = False  # the first answer to a repeated key
    durable: bool = True  # False: it should have been learned from, and could not be written down

    @property
    def unknown(self) -> bool:
        """Whether it seems to show none of the labels."""
        return self.doubt > 0.5

    @property
    def flipped(self) -> bool:
        """Whether adapting has changed the answer."""
        return self.label != self.zero_shot.label

    @property
    def taken_in(self) -> bool:
        """Whether the image is part of the stream; one that may not teach is, too."""
        return not self.id.startswith(LOOK)

    def again(self) -> "Answer":
        """The same, for a repeated request."""
        return replace(self, replayed=True)

    def to_note(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        note = asdict(replace(self, probabilities=None))  # type: ignore[arg-type]
        note["probabilities"] = base64.b64encode(self.probabilities.tobytes()).decode()
        return note

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> "Answer":
        """What `to_note` was made from."""
        given = dict(note)
        given["probabilities"] = np.frombuffer(base64.b64decode(given["probabilities"]), np.float32)
        given["zero_shot"] = Guess(**given["zero_shot"])
        given["parts"] = {name: Guess(**guess) for name, guess in given["parts"].items()}
        return cls(**given)


@dataclass(frozen=True)
class Correction:
    """What became of a human answer."""

    id: str
    label: str
    before: str | None  # what the stream had said, if it still knows
    moved: int  # items that the image had left, which now stand under the label
    placed: bool  # whether the image stands under the label now
    seen: int
    version: int


@dataclass(frozen=True, eq=False)
class Record:
    """One change of a stream: its kind, facts that JSON can hold, and features (V, d) where there are some."""

    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    rows: Array | None = None

    def to_bytes(self) -> bytes:
        """As the journal keeps it."""
        facts = {"kind": self.kind, **self.facts}
        rows = b""
        if self.rows is not None:
            facts["shape"] = list(self.rows.shape)
            rows = np.ascontiguousarray(self.rows, "<f4").tobytes()
        text = _as_text(facts).encode()
        return HEADER.pack(len(text), len(rows)) + text + rows

    @classmethod
    def from_bytes(cls, content: bytes) -> "Record":
        """What `to_bytes` was made from."""
        try:
            length, size = HEADER.unpack_from(content)
            facts = json.loads(content[HEADER.size : HEADER.size + length])
            kind, shape = facts.pop("kind"), facts.pop("shape", None)
            raw = content[HEADER.size + length :]
            if len(raw) != size:
                raise ValueError
            rows = None if shape is None else np.frombuffer(raw, "<f4").astype(np.float32).reshape(shape)
        except (ValueError, KeyError, AttributeError, struct.error):
            raise Damaged("A record of the journal is whole but not one that this trimtab knows.") from None
        return cls(kind, facts, rows)
