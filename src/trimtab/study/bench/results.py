"""A folder of results: the plan that it shall hold, the records that it does hold, and what is still missing.

A record that cannot be trusted is refused and named, and the others are still good: one torn file among ninety must not
hide the table, and nothing of it may be in the table.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.methods import method_class
from trimtab.study.bench.dependencies import code_fingerprint
from trimtab.study.bench.plan import Plan, Run
from trimtab.study.bench.record import About, Record, read_record
from trimtab.study.bench.sealed import Sealed

PLAN = "plan.json"
PLAN_FILE = Sealed("trimtab-plan", 1, "the plan of a benchmark", "delete it and run the same `trimtab bench` again")


@dataclass(frozen=True)
class Results:
    """The records of a folder, the planned files without a good record, and why files were refused."""

    folder: Path
    records: tuple[Record, ...]
    missing: tuple[str, ...]
    refused: tuple[str, ...] = ()  # one sentence for each file

    @property
    def note(self) -> str:
        """What a reader of an unfinished or damaged folder must know; empty if all is well."""
        said = []
        if self.missing:
            whole = len(self.records) + len(self.missing)
            said.append(
                f"UNFINISHED: {len(self.missing)} of {whole} planned runs are missing; "
                "run the same `trimtab bench` again to continue."
            )
        if self.refused:
            files = "1 file was" if len(self.refused) == 1 else f"{len(self.refused)} files were"
            said.append(f"REFUSED: {files} left out: {' '.join(self.refused)}")
        return " ".join(said)


@dataclass(frozen=True)
class _PlannedFiles:
    records: list[str]


def read_results(folder: str | Path) -> Results:
    """Every record below a folder that can be trusted; what was refused, and why, is in `refused`."""
    root = arguments.place("folder", folder)
    if root.is_file():
        raise TrimtabError(f"{root} is a file; give the folder that `trimtab bench` has written.")
    if not root.is_dir():
        raise TrimtabError(f"There is no folder {root}; make it with `trimtab bench FEATURES -o {root}`.")
    files = sorted(path for path in root.rglob("*.json") if _may_be_record(path))
    planned = _planned(root)
    if not files:
        state = "its benchmark has not finished a run yet" if planned else "it was not written by `trimtab bench`"
        raise TrimtabError(f"{root} holds no records: {state}.")
    records: dict[str, Record] = {}
    places: dict[str, Path] = {}
    refused = []
    for path in files:
        try:
            record = read_record(path)
            first = places.setdefault(_run_of(record.about), path)
            if first != path:
                raise TrimtabError(f"{path} is a second record of the same run as {first}; delete one of them.")
        except TrimtabError as error:
            refused.append(str(error))
        else:
            records[path.relative_to(root).as_posix()] = record
    if not records:
        more = f" (and {len(refused) - 1} more like it)" if len(refused) > 1 else ""
        raise TrimtabError(f"{root} holds no record that can be trusted: {refused[0]}{more}")
    missing = tuple(file for file in planned if file not in records)
    return Results(root, tuple(records.values()), missing, tuple(refused))


def note_plan(folder: Path, plan: Plan) -> None:
    """Write down what a folder shall hold, beside what it shall hold already."""
    PLAN_FILE.write(folder / PLAN, {"records": list(dict.fromkeys([*_planned(folder), *plan.files]))})


def still_to_run(folder: Path, runs: Iterable[Run]) -> list[Run]:
    """The runs without good records of this very code: what is new, failed, cut off or out of date."""
    return [run for run in runs if not all(_is_good(folder / file, run.method) for file in run.files.values())]


def _is_good(path: Path, method: str) -> bool:
    if not path.is_file():
        return False
    try:
        record = read_record(path)
    except TrimtabError:
        return False
    return record.ok and record.versions.get("code") == code_fingerprint(method_class(method))


def _planned(folder: Path) -> list[str]:
    path = folder / PLAN
    return PLAN_FILE.read(path, _PlannedFiles).records if path.is_file() else []


def _may_be_record(path: Path) -> bool:
    return path.is_file() and path.name != PLAN and not path.name.startswith(".")


def _run_of(about: About) -> str:
    """What was run, wherever its store was then."""
    return repr(replace(about, store=""))
