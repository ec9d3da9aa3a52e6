"""StreamSettings: what a stream is made with. One frozen record, checked when it is made, that JSON can hold."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.guard.rules import Guard
from trimtab.registry import DEFAULT_METHOD, make_method
from trimtab.steps import Steps

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
FSYNC = ("always", "group", "never")
MOST_LABELS = 100_000
MOST_VIEWS = 256


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """A stream's name, its labels, and how it learns and keeps what it has learned.

    `fsync` says when an image is on the disk: "group", before its answer leaves, with one flush for all images that
    wait together; "always", the same with a flush for each; "never", when the system likes, so that a power cut, but
    not a kill, may lose the last seconds. A snapshot is kept every `snapshot_every` images (0: only on request), the
    last `keep_snapshots` of them. `quota`, images per minute, is for the server to enforce.
    """

    name: str
    labels: tuple[str, ...]
    encoder: str = "lite"
    method: str = DEFAULT_METHOD
    parameters: Mapping[str, Any] = field(default_factory=dict)
    guard: bool = True
    guard_parameters: Mapping[str, Any] = field(default_factory=dict)
    unknown: bool = False
    views: int = 1
    view_budget: float | None = None
    seed: int = 0
    templates: str | tuple[str, ...] = "photo"
    fsync: str = "group"
    snapshot_every: int = 1000
    keep_snapshots: int = 5
    thumbnails: bool = False
    quota: int | None = None

    def __post_init__(self) -> None:
        stream_name(self.name)
        labels = arguments.names("labels", self.labels)
        if not 2 <= len(labels) <= MOST_LABELS:
            raise TrimtabError(f"A stream needs from 2 to {MOST_LABELS:,} labels, not {len(labels)}.")
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise TrimtabError(f"labels holds {twice!r} more than once; give every class a name of its own.")
        templates = self.templates
        if not isinstance(templates, str):
            templates = arguments.names("templates", templates)
        for text in (*labels, *([templates] if isinstance(templates, str) else templates)):
            arguments.writable("A label or template", text)
        arguments.text("encoder", self.encoder)
        for switch in ("guard", "unknown", "thumbnails"):
            arguments.switch(switch, getattr(self, switch))
        for mapping in ("parameters", "guard_parameters"):
            arguments.instance(mapping, getattr(self, mapping), Mapping, "values by the parameter's name")
        arguments.whole("views", self.views, least=1, most=MOST_VIEWS)
        arguments.whole("seed", self.seed, least=0)
        arguments.word("fsync", self.fsync, FSYNC)
        arguments.whole("snapshot_every", self.snapshot_every, least=0)
        arguments.whole("keep_snapshots", self.keep_snapshots, least=1, most=1000)
        if self.view_budget is not None:
            arguments.number("view_budget", self.view_budget, least=1, most=self.views)
        if self.quota is not None:
            arguments.whole("quota", self.quota, least=1)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "templates", templates)
        object.__setattr__(self, "parameters", _values(self.parameters))
        object.__setattr__(self, "guard_parameters", _values(self.guard_parameters))
        self.make_method()
        self.make_guard()

    def make_method(self) -> Steps:
        """The method, with its parameters; one that needs more than features is refused."""
        method: Steps = make_method(self.method, **self.parameters)
        if method.needs:
            raise TrimtabError(
                f"{self.method} tunes prompts inside the encoder, image by image, and cannot be served; "
                f"choose a method that works on features, such as {DEFAULT_METHOD}."
            )
        return method

    def make_guard(self) -> Guard | None:
        """The guard, or None where it is off."""
        given = dict(self.guard_parameters)
        if not self.guard:
            if self.unknown or given:
                raise TrimtabError("unknown and guard_parameters belong to the guard; leave guard on.")
            return None
        known = [declared.name for declared in fields(Guard)]
        for name in given:
            if name not in known:
                raise TrimtabError(f"A guard has no parameter {name!r}; it has {', '.join(known)}.")
        if self.unknown:
            given["unknown"] = True
        return Guard(**given)

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        found = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    @classmethod
    def from_dict(cls, given: Any) -> "StreamSettings":
        """Settings as a request, a TOML table or a file gives them; what is left out has its default."""
        arguments.instance("A stream's settings", given, Mapping, "a table of values by name")
        known = [declared.name for declared in fields(cls)]
        for name in given:
            if name not in known:
                raise TrimtabError(f"A stream has no setting {arguments.shown(name)}; it has {', '.join(known)}.")
        for name in ("name", "labels"):
            if name not in given:
                raise TrimtabError(f"A stream needs {name!r}.")
        return cls(**given)


def stream_name(name: object) -> str:
    """A name that is also a folder's, on every system, and never leads out of one."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise TrimtabError(
            "A stream's name has up to 64 small letters, digits, - and _, and begins with a letter or a digit; "
            f"it cannot be {arguments.shown(name)}."
        )
    return name


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Values in the form that methods take: what JSON gives as a list is a tuple."""
    return {
        arguments.text("a parameter's name", name): tuple(v) if isinstance(v, list) else v for name, v in given.items()
    }
