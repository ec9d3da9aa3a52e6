"""A benchmark on a cluster: one task per run, and the records that this machine would have made."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trimtab.cluster.session import Versions, check_versions, each, ray_session, versions
from trimtab.storage import is_url
from trimtab.study.bench.plan import Run
from trimtab.study.bench.record import Record
from trimtab.study.bench.runner import execute


def run_one(expected: Versions, run: Run, store: str) -> list[Record]:
    """One run, on a worker, in one thread; `store` is where a worker finds it."""
    from threadpoolctl import threadpool_limits

    check_versions(expected)
    with threadpool_limits(1):
        records = execute(replace(run, store=store))
    return [replace(record, about=replace(record.about, store=run.store)) for record in records]


def runs_on_ray(
    address: str | None = None, cores: int | None = None
) -> Callable[[Sequence[Run]], Iterator[tuple[Run, list[Record]]]]:
    """What `run_plan` takes as `elsewhere`; stores must lie where every machine sees them.

    `cores` bounds a cluster that is started here; one that runs already divides its cores itself.
    """

    def run_all(runs: Sequence[Run]) -> Iterator[tuple[Run, list[Record]]]:
        if not runs:
            return
        with ray_session(address, cores) as ray:
            yield from each(ray, run_one, runs, lambda run: (versions(), run, _seen_by_all(run.store)), num_cpus=1)

    return run_all


def _seen_by_all(store: str) -> str:
    """A path as workers, whose working folder is another one, understand it."""
    return store if is_url(store) else str(Path(store).expanduser().absolute())
