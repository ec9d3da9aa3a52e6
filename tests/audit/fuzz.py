"""Damaged files, many of them: each must be read as it was, or refused with a sentence, in good time.

    python -m tests.audit.fuzz --count 10000 --seed 0

A target makes a small valid file (or folder) and says how it is read. A damage changes one file: bytes flipped, cut
off, zeroed or doubled, and for JSON a key dropped, emptied or given another kind. Counted are

    refused     a TrimtabError, of one line
    unchanged   read, and the result is what the whole file gives
    accepted    read, with another result, where no checksum promises to notice
    SILENT      read, with another result, although a checksum promises to notice
    FOREIGN     any other error
    SLOW        more than SECONDS

and the last three should be none. The same count and seed make the same damage.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.audit.fuzz_targets import TARGETS, Target
from trimtab import TrimtabError

SECONDS = 5.0
BAD = ("SILENT", "FOREIGN", "SLOW")


@dataclass
class Outcome:
    """What became of the damaged files of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def fuzz(count: int, seed: int, targets: Sequence[Target] = TARGETS) -> dict[str, Outcome]:
    """Damage `count` files in all, spread evenly over the targets."""
    outcomes = {target.name: Outcome() for target in targets}
    with tempfile.TemporaryDirectory() as place:
        for number, target in enumerate(targets):
            root = Path(place) / target.name
            root.mkdir()
            whole = root / "whole"
            whole.mkdir()
            target.make(whole)
            share = count // len(targets) + (number < count % len(targets))
            rng = np.random.default_rng([seed, number])
            _fuzz_one(target, whole, root / "damaged", rng, share, outcomes[target.name])
    return outcomes


def _fuzz_one(
    target: Target, whole: Path, damaged: Path, rng: np.random.Generator, count: int, outcome: Outcome
) -> None:
    files = sorted(path.relative_to(whole) for path in whole.rglob(target.files) if path.is_file())
    files = [file for file in files if (whole / file).stat().st_size]
    shutil.copytree(whole, damaged)
    expected = target.read(damaged)  # not the whole one: reading may finish what was begun
    shutil.rmtree(damaged)
    for _ in range(count):
        shutil.copytree(whole, damaged)
        file = files[rng.integers(len(files))]
        promised = target.promised or b'"checksum"' in (whole / file).read_bytes()
        how = _damage(damaged / file, rng)
        verdict, detail = _verdict(target, damaged, expected, promised)
        outcome.counts[verdict] += 1
        if verdict in BAD:
            outcome.faults.append(f"{verdict} {target.name}/{file}, {how}: {detail}")
        shutil.rmtree(damaged)


def _verdict(target: Target, folder: Path, expected: Any, promised: bool) -> tuple[str, str]:
    try:
        with _time_limit():
            found = target.read(folder)
    except TrimtabError as error:
        return ("FOREIGN", f"not one line: {error}") if "\n" in str(error) or not str(error) else ("refused", "")
    except TimeoutError as error:
        return "SLOW", str(error)
    except Exception as error:
        return "FOREIGN", f"{type(error).__name__}: {str(error)[:150]}"
    if found == expected:
        return "unchanged", ""
    return ("SILENT" if promised else "accepted"), "another result"


@contextmanager
def _time_limit() -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS:g} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _damage(file: Path, rng: np.random.Generator) -> str:
    """Change a file; how, in words."""
    ways: list[Callable[[Path, np.random.Generator], str]] = [_flip, _cut, _zero, _double]
    if file.suffix == ".json":
        ways += [_edit_json] * 4
    if file.suffix in (".jsonl", ".csv", ".tsv"):
        ways += [_edit_line] * 4
    return ways[rng.integers(len(ways))](file, rng)


def _flip(file: Path, rng: np.random.Generator) -> str:
    content = bytearray(file.read_bytes())
    places = rng.integers(len(content), size=int(rng.integers(1, 9)))
    for place in places:
        content[place] ^= int(rng.integers(1, 256))
    file.write_bytes(content)
    return f"bytes flipped at {places.tolist()}"


def _cut(file: Path, rng: np.random.Generator) -> str:
    content = file.read_bytes()
    kept = int(rng.integers(len(content)))
    file.write_bytes(content[:kept])
    return f"cut off after {kept} of {len(content)} bytes"


def _zero(file: Path, rng: np.random.Generator) -> str:
    content = bytearray(file.read_bytes())
    start, end = sorted(int(place) for place in rng.integers(len(content) + 1, size=2))
    content[start:end] = bytes(end - start)
    file.write_bytes(content)
    return f"zeroed from {start} to {end}"


def _double(file: Path, rng: np.random.Generator) -> str:
    content = file.read_bytes()
    start, end = sorted(int(place) for place in rng.integers(len(content) + 1, size=2))
    file.write_bytes(content[:end] + content[start:end] + content[end:])
    return f"bytes {start} to {end} doubled"


STRANGE: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2, 1.5, 10**20, 1e308, "", "x", "../../etc/passwd", [], [None], [[]], {}, {"a": None},
)  # fmt: skip


def _edit_json(file: Path, rng: np.random.Generator) -> str:
    content = json.loads(file.read_bytes())
    places = list(_places(content))
    holder, key, path = places[rng.integers(len(places))]
    if rng.random() < 0.3:
        del holder[key]
        how = f"{path} dropped"
    else:
        holder[key] = STRANGE[rng.integers(len(STRANGE))]
        how = f"{path} = {holder[key]!r}"
    file.write_text(json.dumps(content))
    return how


def _places(content: Any, path: str = "") -> Iterator[tuple[Any, Any, str]]:
    """Every key and item: what holds it, under what name, and its path. Long lists are looked into a little."""
    inside = list(content) if isinstance(content, dict) else range(min(len(content), 3))
    for key in inside:
        yield content, key, f"{path}/{key}"
        if isinstance(content[key], dict | list):
            yield from _places(content[key], f"{path}/{key}")


def _edit_line(file: Path, rng: np.random.Generator) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    place = int(rng.integers(len(lines)))
    strange = ('"', ",,,", "", "\t", '{"path": 1}', "[]", "null", "a.png", "../a.png,red", "a\0b,red", "\ufeff", ",")
    lines[place] = strange[rng.integers(len(strange))]
    file.write_text("\n".join(lines), encoding="utf-8")
    return f"line {place} = {lines[place]!r}"


# What is fuzzed.


def main() -> int:
    """Print the counts per kind, then each fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    outcomes = fuzz(options.count, options.seed)
    columns = ("refused", "unchanged", "accepted", *BAD)
    print(f"{'':24}", *(f"{column:>10}" for column in columns))
    for name, outcome in outcomes.items():
        print(f"{name:24}", *(f"{outcome.counts[column]:>10}" for column in columns))
    faults = [fault for outcome in outcomes.values() for fault in outcome.faults]
    print(f"{options.count} damaged files in {time.perf_counter() - start:.0f} s, {len(faults)} faults")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
