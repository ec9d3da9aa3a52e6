"""Many streams at once: one actor per stream, snapshots on storage that all machines see, a merge after every round.

    round r: every stream plays its next images from the snapshot r -> what is kept is merged -> snapshot r + 1

An actor holds nothing that its snapshot does not hold. When its machine is lost, Ray starts it again elsewhere and
repeats the call; it loads the snapshot and gives the same bits. A driver that is killed continues after the last round.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.cluster.adapt_plan import AdaptPlan, Division, Played, refuse_other_plan
from trimtab.cluster.session import Versions, check_versions, ray_session, sentences, versions
from trimtab.errors import TrimtabError
from trimtab.files import FolderLock, write_whole
from trimtab.merging import MergingStream, replayed

Round = Sequence[tuple[int, str | None]]  # stream and the snapshot that it begins with
PlayAll = Callable[[int, Round], Iterator[tuple[int, Played]]]


@dataclass(frozen=True, eq=False)
class Adapted:
    """What became of a plan: for each row of the store its label and its stream (-1: none), and the last snapshots."""

    labels: NDArray[np.int64]
    streams: NDArray[np.int64]
    snapshots: list[Path]


class Camera:
    """One stream, on whatever machine it runs."""

    def __init__(self, expected: Versions, plan: AdaptPlan, stream: int, folder: str) -> None:
        check_versions(expected)
        self._division, self._stream, self._folder = Division(plan), stream, Path(folder)
        self._at: tuple[str, MergingStream] | None = None  # the snapshot written last, and the stream that it holds

    def play(self, number: int, snapshot: str | None) -> Played:
        """Play one round from a snapshot, and write down what it gave."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            known = self._at is not None and self._at[0] == snapshot
            begin = self._at[1] if known and self._at else self._division.begin(snapshot)
            self._at = None  # from here on it is no longer what the snapshot holds
            played = self._division.play(self._stream, number, begin)
            if not self._division.plan.merging:
                path = _own_snapshot(self._folder, number, self._stream)
                begin.save(path)
                self._at = str(path), begin
            write_whole(_played_file(self._folder, number, self._stream), _packed(played))
        return played


def adapt_streams(
    plan: AdaptPlan,
    out: str | Path,
    *,
    ray: bool = False,
    address: str | None = None,
    cores: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Adapted:
    """Run the streams of a plan, here one after the other or on Ray; rounds that are in the folder `out` are kept.

    Both give the same bits. `out` must lie where every machine sees it.
    """
    division = Division(plan)
    division.begin(None)  # whatever is wrong with the method, the order or the store is said before there is a folder
    folder = Path(out).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder)
    except OSError as error:
        raise TrimtabError(f"The folder {folder} cannot be written: {error.strerror}.") from None
    try:
        refuse_other_plan(folder, plan)
        if not ray:
            return _rounds(division, folder, _here(plan, folder), progress)
        with ray_session(address, cores) as module:
            return _rounds(division, folder, _on_ray(module, plan, folder), progress)
    finally:
        lock.release(remove=True)


def _rounds(
    division: Division, folder: Path, play_all: PlayAll, progress: Callable[[int, int], None] | None
) -> Adapted:
    plan = division.plan
    labels = np.full(len(division.store), -1, np.int64)
    streams = labels.copy()
    total, done = sum(len(rows) for rows, _ in division.parts), 0
    last = max((n for n in range(division.rounds) if _merged_snapshot(folder, n).exists()), default=-1)
    begins: list[str | None] = [None] * len(division.parts)
    for number in range(division.rounds):
        played = dict(_played_before(folder, number, len(begins)))
        unplayed = [(stream, begin) for stream, begin in enumerate(begins) if stream not in played]
        played.update(play_all(number, unplayed))
        for stream in sorted(played):
            rows = division.parts[stream][0][number * plan.merge_every : (number + 1) * plan.merge_every]
            labels[rows], streams[rows] = played[stream].labels, stream
            done += len(rows)
        if plan.merging:
            path = _merged_snapshot(folder, number)
            if not path.exists() and number >= last:  # else a later one is there, and nothing begins with this one
                kept = (each for round_played in played.values() for each in division.kept(round_played))
                replayed(division.method, division.task, kept).save(path)
            begins = [str(path)] * len(begins)
        else:
            begins = [str(_own_snapshot(folder, number, stream)) for stream in range(len(begins))]
        _forget(folder, number - 1)
        if progress:
            progress(done, total)
    return Adapted(labels, streams, [Path(path) for path in dict.fromkeys(begins) if path is not None])


def _here(plan: AdaptPlan, folder: Path) -> PlayAll:
    cameras: dict[int, Camera] = {}

    def play_all(number: int, unplayed: Round) -> Iterator[tuple[int, Played]]:
        for stream, snapshot in unplayed:
            camera = cameras.setdefault(stream, Camera(versions(), plan, stream, str(folder)))
            yield stream, camera.play(number, snapshot)

    return play_all


def _on_ray(ray: Any, plan: AdaptPlan, folder: Path) -> PlayAll:
    # No cores are reserved: actors that reserve all of a cluster would wait for ever when a node of it is lost.
    actor = ray.remote(Camera).options(num_cpus=0, scheduling_strategy="SPREAD", max_restarts=-1, max_task_retries=-1)
    cameras: dict[int, Any] = {}

    def play_all(number: int, unplayed: Round) -> Iterator[tuple[int, Played]]:
        waiting = {}
        for stream, snapshot in unplayed:
            if stream not in cameras:
                cameras[stream] = actor.remote(versions(), plan, stream, str(folder))
            waiting[cameras[stream].play.remote(number, snapshot)] = stream
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            with sentences(ray):
                yield waiting.pop(done), ray.get(done)

    return play_all


def _merged_snapshot(folder: Path, number: int) -> Path:
    return folder / f"merged-{number + 1:05d}.safetensors"


def _own_snapshot(folder: Path, number: int, stream: int) -> Path:
    return folder / f"own-{number + 1:05d}-{stream:05d}.safetensors"


def _played_file(folder: Path, number: int, stream: int) -> Path:
    return folder / f"round-{number:05d}-{stream:05d}.npz"


def _played_before(folder: Path, number: int, streams: int) -> Iterator[tuple[int, Played]]:
    for stream in range(streams):
        path = _played_file(folder, number, stream)
        if path.exists():
            with np.load(path, allow_pickle=False) as file:
                yield stream, Played(file["labels"], file["rows"], file["times"])


def _packed(played: Played) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, labels=played.labels, rows=played.rows, times=played.times)
    return buffer.getvalue()


def _forget(folder: Path, number: int) -> None:
    """Snapshots that no round will begin with again; what was played stays, since it holds the labels."""
    if number >= 0:
        for path in (_merged_snapshot(folder, number), *folder.glob(f"own-{number + 1:05d}-*.safetensors")):
            path.unlink(missing_ok=True)
