"""Many runs at once: worker processes of one thread each, and nothing lost on Ctrl-C."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, current_process, get_context, parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from trimtab.errors import TrimtabError
from trimtab.study.bench.plan import Plan, Run
from trimtab.study.bench.record import Record, write_record
from trimtab.study.bench.results import note_plan, still_to_run
from trimtab.study.bench.runner import execute

# Read by the libraries when they are first imported, so they must be set before a worker starts.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
)

UNGUARDED = 77  # the exit code of a worker that met `run_plan` while it was reading the user's script

OnDone = Callable[[Run, Sequence[Record]], None]
Elsewhere = Callable[[Sequence[Run]], Iterator[tuple[Run, list[Record]]]]


def run_plan(
    plan: Plan,
    folder: str | Path,
    *,
    workers: int | None = None,
    skip_existing: bool = True,
    on_done: OnDone | None = None,
    elsewhere: Elsewhere | None = None,
) -> list[Record]:
    """Run what is not there yet, write each record as soon as it is made, and return the new ones.

    `workers` processes work side by side (all cores if None); with one, everything runs in this process. `on_done` is
    called after each run. `elsewhere` runs them in place of this machine (`trimtab.cluster.bench`).
    """
    if getattr(current_process(), "_inheriting", False):  # as multiprocessing itself recognizes it
        os._exit(UNGUARDED)  # at once: nothing of the script may run a second time, and the parent explains
    if workers is not None and workers < 1:
        raise TrimtabError(f"At least one worker is needed, not {workers}.")
    root = Path(folder).expanduser()
    if root.is_file():
        raise TrimtabError(f"{root} is a file; give a folder for the records.")
    note_plan(root, plan)
    remaining = still_to_run(root, plan.runs) if skip_existing else list(plan.runs)
    count = min(workers or os.cpu_count() or 1, max(len(remaining), 1))
    made: list[Record] = []
    if elsewhere is not None:
        done = elsewhere(remaining)
    else:
        done = _here(remaining) if count == 1 else _side_by_side(remaining, count)
    for run, records in done:
        for record in records:
            write_record(record, root / run.file_of(record.about.weights))
        made.extend(records)
        if on_done:
            on_done(run, records)
    return made


def _here(runs: Sequence[Run]) -> Iterator[tuple[Run, list[Record]]]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        for run in runs:
            yield run, execute(run)


def _side_by_side(runs: Sequence[Run], count: int) -> Iterator[tuple[Run, list[Record]]]:
    _refuse_unreadable_script()
    others = set(active_children())
    workers: set[BaseProcess] = set()
    with _environment(ONE_THREAD):
        pool = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_depend_on_parent)
        try:
            waiting: dict[Future[list[Record]], Run] = {pool.submit(execute, run): run for run in runs}
            while waiting:
                workers |= set(active_children()) - others
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool:
            pool.shutdown(wait=True)
            raise TrimtabError(_why_broken({worker.exitcode for worker in workers})) from None
        except BaseException:  # Ctrl-C among them: do not wait for minutes of work that nobody wants
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in set(active_children()) - others:
                worker.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _why_broken(exit_codes: set[int | None]) -> str:
    """What a dead worker says by its exit code; the pool itself ends the others by SIGTERM."""
    if UNGUARDED in exit_codes:
        return (
            "run_plan starts worker processes, which read the script that calls it again; put the call below "
            '`if __name__ == "__main__":`, or use workers=1.'
        )
    if -9 in exit_codes:  # SIGKILL, which Windows does not name
        why = "was killed, probably because memory ran out"
    else:
        ends = sorted(str(code) for code in exit_codes if code not in (None, 0, -signal.SIGTERM))
        why = f"ended with exit code {ends[0]}; what it said of it stands above" if ends else "ended too early"
    return f"A worker process {why}. Finished runs are kept; run the same command with fewer --workers to continue."


def _refuse_unreadable_script() -> None:
    """A worker reads the script that started it once more; one that came through a pipe cannot be read again."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and getattr(sys.modules["__main__"], "__spec__", None) is None and not Path(script).exists():
        raise TrimtabError(f"Worker processes cannot read {script} again; save it as a file, or use workers=1.")


def _depend_on_parent() -> None:
    """A worker leaves interrupts to its parent, and ends with it, even if the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
