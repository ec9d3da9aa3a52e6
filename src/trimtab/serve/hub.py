"""Hub: all streams of a folder, by name. One process; a bound on memory; streams that nobody uses sleep on the disk."""

import gc
import logging
import threading
import time
from pathlib import Path
from typing import Any, Self

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.files import FolderLock
from trimtab.serve.folder import clear_leftovers
from trimtab.serve.refusals import NoSuchStream, StreamExists
from trimtab.serve.settings import NAME, StreamSettings, stream_name
from trimtab.serve.sleeper import Sleeper
from trimtab.serve.tenant import Tenant

_log = logging.getLogger(__name__)
LEAST_GARBAGE = 64 << 20  # bytes, before Python is asked to look for it
STREAMS = "streams"  # the folder of folders


class Hub:
    """The streams of a server. `memory` bounds what streams hold that are awake, in bytes; `awake`, how many they are.

    A stream that nobody has asked for `idle` seconds goes to sleep. Both bounds count streams that can be put to sleep:
    one that is being used stays.
    """

    def __init__(self, folder: Path, *, memory: int, awake: int, idle: float) -> None:
        self.folder, self._memory, self._most, self._idle = folder, memory, awake, idle
        self._streams = folder / STREAMS
        try:
            self._streams.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrimtabError(f"The folder {folder} cannot be made: {error.strerror or error}.") from error
        self._server = FolderLock(folder)
        self._lock = threading.Lock()
        self._garbage = 0  # bytes of streams that sleep, and of which nobody knows yet that they are free
        clear_leftovers(self._streams)
        self._tenants: dict[str, Tenant] = {}
        self.unreadable: dict[str, TrimtabError] = {}  # streams that cannot be opened, and why; the others are served
        for path in sorted(self._streams.iterdir()):
            if NAME.fullmatch(path.name) and path.is_dir():
                try:
                    self._tenants[path.name] = Tenant(path, self._make_room)
                except TrimtabError as error:
                    _log.warning("%s", error)
                    self.unreadable[path.name] = error
        self._stop = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="trimtab idle streams", daemon=True)
        self._sweeper.start()

    @classmethod
    def open(cls, folder: Path | str, *, memory: int = 2 << 30, awake: int = 512, idle: float = 600.0) -> "Hub":
        """The streams of a folder, which may be new; a second server on it is refused."""
        arguments.whole("memory", memory, least=1)
        arguments.whole("awake", awake, least=1)
        arguments.positive("idle", idle)
        return cls(arguments.place("folder", folder), memory=memory, awake=awake, idle=idle)

    def create(self, settings: StreamSettings, text: Array, logit_scale: float = 100.0) -> Tenant:
        """Make a stream."""
        with self._lock:
            if settings.name in self._tenants:
                raise StreamExists(f"There is a stream {settings.name!r} already; delete it, or choose another name.")
            path = self._streams / settings.name
            Tenant.create(path, settings, text, logit_scale)
            self._tenants[settings.name] = Tenant(path, self._make_room)
            return self._tenants[settings.name]

    def get(self, name: str) -> Tenant:
        """A stream by its name."""
        tenant = self._tenants.get(name) if isinstance(name, str) else None
        if tenant is None and name in self.unreadable:
            error = self.unreadable[name]
            raise type(error)(*error.args)
        if tenant is None:
            raise NoSuchStream(f"There is no stream {arguments.shown(name)}.")
        return tenant

    def names(self) -> list[str]:
        """The names of all streams."""
        return sorted(self._tenants)

    def summaries(self) -> list[dict[str, Any]]:
        """A few facts of every stream, as they were last known; none is woken."""
        return [tenant.summary() for _, tenant in sorted(self._tenants.copy().items())]

    def delete(self, name: str) -> None:
        """Delete a stream with all that it has learned."""
        with self._lock:  # found inside it: of two who delete a stream, the second finds none
            self.get(stream_name(name)).delete()
            self._tenants.pop(name, None)

    def close(self) -> None:
        """Put every stream to the disk and let others use the folder. Closing twice does nothing."""
        self._stop.set()
        self._sweeper.join()
        for tenant in list(self._tenants.values()):
            try:
                tenant.close()
            except (OSError, TrimtabError) as error:
                _log.warning("stream %s was not put away: %s", tenant.name, error)
        self._server.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def figures(self) -> dict[str, int]:
        """How many streams there are, how many are awake, and the bytes that these take, about."""
        sizes = [tenant.bytes for tenant in list(self._tenants.values())]
        return {"streams": len(sizes), "awake": sum(size > 0 for size in sizes), "bytes": sum(sizes)}

    def put_idle_to_sleep(self) -> None:
        """Put the streams to sleep that nobody has used for long. Only a steady clock is asked."""
        limit = time.monotonic() - self._idle
        for tenant in list(self._tenants.values()):
            size = tenant.bytes
            if size and tenant.last_used < limit and tenant.sleep(wait=False):
                self._let_go(size)

    def _make_room(self, waking: Sleeper) -> None:
        """Before a stream wakes: put those to sleep that were used least recently, until both bounds are kept."""
        awake = [tenant for tenant in list(self._tenants.values()) if tenant.bytes and tenant is not waking]
        awake.sort(key=lambda tenant: tenant.last_used)
        total = sum(tenant.bytes for tenant in awake) + waking.bytes_awake
        count = len(awake) + 1
        for tenant in awake:
            if total <= self._memory and count <= self._most:
                return
            size = tenant.bytes
            if tenant.sleep(wait=False):
                total, count = total - size, count - 1
                self._let_go(size)

    def _let_go(self, size: int) -> None:
        """A stream's parts refer to each other, so its memory is free only after Python has looked for such circles."""
        self._garbage += size
        if self._garbage > max(self._memory // 8, LEAST_GARBAGE):
            self._garbage = 0
            gc.collect()

    def _sweep(self) -> None:
        while not self._stop.wait(min(self._idle / 4, 30.0)):
            try:
                self.put_idle_to_sleep()
            except Exception:
                _log.exception("idle streams could not be put to sleep")
