"""A Ray cluster for the time of a command: the one at an address, or one of this machine's own cores.

Ray Core only: one task for each piece of work. (Measured: one task for a shard costs 0.36 s where Ray Data costs 5.6
to 12, and an actor pool of Ray Data that takes all cores hangs without a word.)
"""

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

import trimtab
from trimtab.errors import TrimtabError
from trimtab.images.loader import usable_cores

ANSWER_SECONDS = 5.0  # how long an address may take to answer; Ray itself waits for minutes
OBJECT_STORE = 512 << 20  # bytes, of a cluster of our own: arguments and small results go through it, features do not
SETTINGS = 4  # the type of a frame of HTTP/2
ATTEMPTS = 4  # times that a piece of work is tried again after its machine was lost or ran out of memory

Item = TypeVar("Item")
Result = TypeVar("Result")
Versions = tuple[str, str, str]


@contextlib.contextmanager
def ray_session(address: str | None = None, cores: int | None = None) -> Iterator[Any]:
    """The module `ray`, connected: to the cluster at `address`, or to one that this call starts and ends.

    Inside another session it joins that one, so that a program may hold a cluster for several commands.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    if address is not None and address != "auto":
        _refuse_silence(address)
    try:
        if address is None:
            ray.init(
                num_cpus=cores or usable_cores(),
                include_dashboard=False,
                object_store_memory=OBJECT_STORE,
                **_quiet(),
            )
        else:
            ray.init(address=address, **_quiet())
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "on this machine" if address is None else f"at {address}"
        raise TrimtabError(f"There is no Ray cluster {where} to work on: {first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def versions() -> Versions:
    """What must be the same here and on every worker for the same bytes to come out."""
    return trimtab.__version__, np.__version__, ".".join(map(str, sys.version_info[:2]))


def check_versions(expected: Versions) -> None:
    """Called on a worker: refuse to work with other versions than the driver's."""
    found = versions()
    if found != expected:
        names = ("trimtab", "NumPy", "Python")
        differing = [f"{n} {f}, not {e}" for n, f, e in zip(names, found, expected, strict=True) if f != e]
        raise TrimtabError(
            f"The worker {socket.gethostname()} has {' and '.join(differing)}; install the same on all machines."
        )


def each(
    ray: Any,
    function: Callable[..., Result],
    items: Sequence[Item],
    arguments_of: Callable[[Item], tuple[Any, ...]],
    **resources: Any,
) -> Iterator[tuple[Item, Result]]:
    """`function(*arguments_of(item))` of every item on the cluster, each as soon as it is done.

    A task is a pure function, so it is tried again when its worker, its node or its memory is lost. Arguments are made
    a few tasks ahead, not all at once. Ctrl-C cancels what is under way.
    """
    task = ray.remote(function).options(max_retries=ATTEMPTS, **resources)
    waiting: dict[Any, Item] = {}
    left = iter(items)
    try:
        while True:
            ahead = max(16, 4 * int(ray.cluster_resources().get("CPU", 1)))
            while len(waiting) < ahead and (item := next(left, _END)) is not _END:
                waiting[task.remote(*arguments_of(item))] = item  # type: ignore[arg-type, assignment]
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1)
            item = waiting.pop(done[0])
            with sentences(ray):
                result: Result = ray.get(done[0])
            yield item, result
    finally:
        for reference in waiting:
            with contextlib.suppress(Exception):  # the cluster may be gone
                ray.cancel(reference, force=True)


_END = object()


@contextlib.contextmanager
def sentences(ray: Any) -> Iterator[None]:
    """Turn what Ray raises about work that went wrong elsewhere into one sentence, as if it had gone wrong here."""
    errors = ray.exceptions
    try:
        yield
    except errors.OutOfMemoryError:
        raise TrimtabError(
            "A node has no memory left for this work, also when it was tried again; give nodes more memory, or run "
            "fewer tasks at once on each. Finished work is kept; run the same command again to continue."
        ) from None
    except (
        errors.WorkerCrashedError,
        errors.NodeDiedError,
        errors.ActorDiedError,
    ) as error:
        raise TrimtabError(
            f"A worker was lost again and again: {first_line(error)} Finished work is kept; run the same command again "
            "to continue."
        ) from None
    except errors.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, TrimtabError):
            raise TrimtabError(str(cause)) from None
        if isinstance(cause, ModuleNotFoundError):
            raise TrimtabError(f"A worker lacks the package {cause.name}; install the same on all machines.") from None
        if isinstance(cause, OSError):
            raise TrimtabError(f"A worker cannot read or write: {cause}.") from None
        raise
    except errors.RaySystemError as error:
        raise TrimtabError(f"The workers cannot take the work: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """The first line of a message that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def import_ray() -> Any:
    """The module, if it is there, which reports nothing to anybody."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing about users' work is reported to anyone
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # as the local road; Ray's 15 waits behind whatever else runs
    os.environ.setdefault("RAY_task_oom_retries", str(ATTEMPTS))  # Ray would try for ever
    try:
        import ray
    except ImportError:
        raise TrimtabError("--engine ray needs the package ray; run: pip install 'trimtab[cluster]'") from None
    return ray


def _quiet() -> dict[str, Any]:
    return {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}


def _refuse_silence(address: str) -> None:
    """Ray tries an address that does not answer for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        raise TrimtabError(f"--address takes host:port, ray://host:port or auto, not {address!r}.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as connection:
            spoken = os.environ.get("RAY_USE_TLS") == "1" or _speaks_http2(connection)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise TrimtabError(f"There is no Ray cluster at {address}: it does not answer ({why}).") from None
    if not spoken:
        raise TrimtabError(f"There is no Ray cluster at {address}: something else answers there.")


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether a greeting of HTTP/2, in which Ray speaks, is answered in kind: with a frame of settings."""
    empty_settings = bytes((0, 0, 0, SETTINGS, 0, 0, 0, 0, 0))
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + empty_settings)
    header = b""
    while len(header) < len(empty_settings) and (piece := connection.recv(len(empty_settings) - len(header))):
        header += piece
    return len(header) == len(empty_settings) and header[3] == SETTINGS
