"""Access: who may do what. Tokens are long random words, of which the server keeps a hash alone.

A token has a role, "classify" (send pictures, look) or "admin" (also change, restore, delete), for some streams or all
of them. Without tokens a server is open, and listens to its own machine only. A server that began with tokens reads
their file again when it changes, and is never open, whatever the file says then.
"""

import hashlib
import hmac
import ipaddress
import json
import secrets
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import refuse_special, write_whole
from trimtab.serve.logs import log
from trimtab.serve.settings import stream_name

Role = Literal["classify", "admin"]
ROLES: Final = ("classify", "admin")
ALL: Final = "*"
COOKIE: Final = "trimtab_token"  # how a browser sends its token
MOST_IN_FILE = 10_000
LOOK_EVERY = 1.0  # seconds between two looks at the file


@dataclass(frozen=True)
class Token:
    """What is kept of a token: never the token itself."""

    name: str  # for people, and for the log
    role: Role
    streams: tuple[str, ...]  # ("*",) means all
    sha256: str

    def role_for(self, stream: str | None) -> Role | None:
        """What it allows on a stream; on the server as a whole, with None: streams made and listed."""
        return self.role if ALL in self.streams or stream in self.streams else None


class Access:
    """The tokens of a server; those of a `file` as it is now."""

    def __init__(self, tokens: Iterable[Token] = (), file: Path | None = None) -> None:
        self._tokens, self._file = tuple(tokens), file
        self.is_open = not self._tokens  # everybody may do everything; settled when the server starts
        self._mark, self._looked = _mark(file), time.monotonic()

    def who(self, given: str | None) -> Token | None:
        """The token that was given. All are compared, each in constant time, so that time tells nothing of them."""
        self._look_again()
        digest = hash_of(given or "")
        found = None
        for token in self._tokens:
            if hmac.compare_digest(digest, token.sha256):
                found = token
        return found

    def _look_again(self) -> None:
        """Take over what the file says now; while it cannot be read, what it said before holds."""
        now = time.monotonic()
        if self._file is None or self.is_open or now - self._looked < LOOK_EVERY:
            return
        self._looked, mark = now, _mark(self._file)
        if mark == self._mark:
            return
        self._mark = mark
        try:
            self._tokens = tuple(read_tokens(self._file))
        except TrimtabError as error:
            log.warning("the tokens stay as they were: %s", error)
        else:
            log.info("tokens read again", extra={"facts": {"tokens": len(self._tokens)}})

    def role(self, given: str | None, stream: str | None) -> Role | None:
        """What whoever gave this token may do with a stream, or with the server as a whole."""
        if self.is_open:
            return "admin"
        token = self.who(given)
        return None if token is None else token.role_for(stream)

    @classmethod
    def read(cls, file: Path) -> "Access":
        """The tokens in a file that `trimtab token` has written."""
        mark = _mark(file)  # before it is read: a change from then on is seen
        access = cls(read_tokens(file), file)
        access._mark = mark
        return access


def hash_of(token: str) -> str:
    """Tokens have 256 random bits, so one plain hash is enough: there is nothing to guess."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_tokens(file: Path) -> list[Token]:
    """What a file of tokens says, or one sentence why it cannot be used."""
    try:
        refuse_special(file)
        content = json.loads(file.read_bytes())
        entries = content["tokens"]
        return [_checked(entry) for entry in entries[:MOST_IN_FILE]]
    except OSError as error:
        raise TrimtabError(f"The token file {file} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TrimtabError(f"{file} is not a token file ({error}); make one with `trimtab token`.") from None


def add_token(file: Path, name: str, role: str, streams: Iterable[str]) -> str:
    """Make a token, note its hash in the file, and give the token: this once, for nobody can find it out again."""
    arguments.text("name", name)
    arguments.word("role", role, ROLES)
    tokens = read_tokens(file) if file.exists() else []
    if any(token.name == name for token in tokens):
        raise TrimtabError(f"{file} has a token called {name!r} already; choose another name, or remove it there.")
    allowed = tuple(each if each == ALL else stream_name(each) for each in streams) or (ALL,)
    secret = secrets.token_urlsafe(32)
    tokens.append(Token(name, "admin" if role == "admin" else "classify", allowed, hash_of(secret)))
    content = json.dumps({"tokens": [asdict(token) for token in tokens]}, indent=1)
    try:
        write_whole(file, content.encode())
        file.chmod(0o600)
    except OSError as error:
        raise TrimtabError(f"{file} cannot be written: {error.strerror}.") from None
    return secret


def _mark(file: Path | None) -> tuple[int, ...]:
    """What changes when a file does."""
    try:
        found = None if file is None else file.stat()
    except OSError:
        found = None
    return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and nothing else."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def refuse_open_door(host: str, access: Access) -> None:
    """A server that others can reach needs tokens."""
    if access.is_open and not is_loopback(host):
        raise TrimtabError(
            f"On {host} others could reach this server, and it has no tokens; make one with `trimtab token NAME "
            "-o tokens.json` and give --token-file tokens.json, or listen on 127.0.0.1."
        )


def _checked(entry: Any) -> Token:
    if not isinstance(entry, dict) or set(entry) != {"name", "role", "streams", "sha256"}:
        raise ValueError("an entry needs name, role, streams and sha256, and nothing else")
    name, role, streams, digest = entry["name"], entry["role"], entry["streams"], entry["sha256"]
    if not isinstance(name, str) or role not in ROLES or not isinstance(streams, list) or not streams:
        raise ValueError(f"the entry {name!r} has no usable role or streams")
    if not all(isinstance(each, str) for each in streams):
        raise ValueError(f"the streams of {name!r} must be names")
    if not isinstance(digest, str) or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ValueError(f"the sha256 of {name!r} is not 64 hexadecimal digits")
    return Token(name, role, tuple(streams), digest)
