"""ServerConfig: how a server is set up, by a TOML file, the command line, or both."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import refuse_special
from trimtab.serve.limits import Limits
from trimtab.serve.settings import StreamSettings
from trimtab.serve.studio import Studio

FOLDER = "trimtab-streams"
HOST, PORT = "127.0.0.1", 8000


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Everything that can be set. `encoders` are those that requests may name, beside those of `streams`."""

    folder: Path = Path(FOLDER)
    host: str = HOST
    port: int = PORT
    token_file: Path | None = None
    encoders: tuple[str, ...] = ()
    device: str = "cpu"
    precision: str = "fp32"
    memory_megabytes: int = 2048  # of the streams that are awake
    awake: int = 512  # streams in memory at once
    idle_seconds: int = 600  # after which a stream that nobody uses goes to the disk
    page: bool = True
    limits: Limits = field(default_factory=Limits)
    label_studio: Studio = field(default_factory=Studio)
    streams: tuple[StreamSettings, ...] = ()

    def __post_init__(self) -> None:
        arguments.text("host", self.host)
        arguments.whole("port", self.port, least=0, most=65535)
        for name in ("memory_megabytes", "awake", "idle_seconds"):
            arguments.whole(name, getattr(self, name), least=1)
        arguments.switch("page", self.page)
        names = [settings.name for settings in self.streams]
        for name in names:
            if names.count(name) > 1:
                raise TrimtabError(f"Two streams are called {name!r}; give each a name of its own.")

    @classmethod
    def read(cls, file: Path) -> "ServerConfig":
        """What a TOML file says; paths in it start from its folder."""
        try:
            refuse_special(file)
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise TrimtabError(f"The configuration {file} cannot be read: {error.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TrimtabError(f"{file} is not TOML: {error}.") from None
        try:
            return cls(**_read_values(content, file.parent))
        except (TrimtabError, TypeError) as error:
            raise TrimtabError(f"{file}: {error}") from None

    def changed(self, **given: Any) -> "ServerConfig":
        """The same, but for what is given and not None."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def with_stream(self, settings: StreamSettings) -> "ServerConfig":
        """The same and one stream more."""
        return replace(self, streams=(*self.streams, settings))


def _read_values(content: Mapping[str, Any], start: Path) -> dict[str, Any]:
    values = dict(content)
    _refuse_unknown("The configuration", values, ServerConfig)
    for name in ("folder", "token_file"):
        if name in values:
            values[name] = start / arguments.place(name, values[name])
    if "encoders" in values:
        values["encoders"] = arguments.names("encoders", values["encoders"])
    for name, kind in (("limits", Limits), ("label_studio", Studio)):
        if name in values:
            table = arguments.instance(name, values[name], Mapping, "a table of values by name")
            _refuse_unknown(f"[{name}]", table, kind)
            values[name] = kind(**table)
    if "streams" in values:
        tables = arguments.instance("streams", values["streams"], list, "tables [[streams]]")
        values["streams"] = tuple(StreamSettings.from_dict(table) for table in tables)
    return values


def _refuse_unknown(what: str, given: Mapping[str, Any], kind: Any) -> None:
    known = [declared.name for declared in fields(kind)]
    for name in given:
        if name not in known:
            raise TrimtabError(f"{what} has no setting {name!r}; it has {', '.join(known)}.")
