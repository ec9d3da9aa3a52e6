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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trimtab import MCP, FeatureStore, Stream, TrimtabError, make_method
from trimtab.checks import random_stream
from trimtab.data.folder import image_folder
from trimtab.features import FeatureWriter, StoreInfo
from trimtab.images.decode import decode
from trimtab.study.bench import make_plan, read_results, run_plan
from trimtab.study.bench.tuned import TunedParameters

SECONDS = 5.0
BAD = ("SILENT", "FOREIGN", "SLOW")


@dataclass(frozen=True)
class Target:
    """A kind of file: `make(folder)` writes valid ones, `read(folder)` gives something that can be compared.

    `files` are those to damage. `promised`: a checksum vouches for them, so a changed one may not be accepted; a file
    that carries a checksum of its own promises as much.
    """

    name: str
    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    files: str
    promised: bool


@dataclass
class Outcome:
    """What became of the damaged files of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def fuzz(count: int, seed: int, targets: "tuple[Target, ...] | None" = None) -> dict[str, Outcome]:
    """Damage `count` files in all, spread evenly over the targets."""
    chosen = TARGETS if targets is None else targets
    outcomes = {target.name: Outcome() for target in chosen}
    with tempfile.TemporaryDirectory() as place:
        for number, target in enumerate(chosen):
            root = Path(place) / target.name
            root.mkdir()
            whole = root / "whole"
            whole.mkdir()
            target.make(whole)
            share = count // len(chosen) + (number < count % len(chosen))
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

TASK, FEATURES = random_stream(classes=4, dim=8, views=2, images=24, seed=0)


def _make_state(folder: Path) -> None:
    stream = MCP(entropy_slots=2, align_slots=2, negative_slots=1).start(TASK)
    stream.run(FEATURES)
    stream.save(folder / "state")


def _read_state(folder: Path) -> Any:
    stream = Stream.load(folder / "state", TASK)
    return {name: array.tobytes() for name, array in stream.arrays().items()}


def _info() -> StoreInfo:
    return StoreInfo(
        dataset="small",
        encoder="tiny",
        encoder_fingerprint="f" * 64,
        preprocessing={"size": 32},
        prompts="photo",
        seed=0,
        views=2,
        dim=8,
        dtype="float16",
        logit_scale=20.0,
        class_names=tuple(TASK.class_names),
        labels=tuple(i % 4 for i in range(24)),
        ids=tuple(f"{i}.jpg" for i in range(24)),
    )


def _make_store(folder: Path, stop: int | None = None) -> None:
    with FeatureWriter(folder / "store", _info(), np.asarray(TASK.text_prototypes)) as writer:
        first = writer.next_image
        for position in range(first, 24 if stop is None else stop):
            writer.add([position], FEATURES[[position]], [])
        if stop is None:
            writer.finish()


def _make_half_a_store(folder: Path) -> None:
    _make_store(folder, stop=14)


def _read_store(folder: Path) -> Any:
    store = FeatureStore.open(folder / "store", verify=True)
    return store.fingerprint, store.rows(slice(None)).tobytes(), store.task().fingerprint, store.labels.tolist()


def _resume_store(folder: Path) -> Any:
    _make_store(folder)
    return _read_store(folder)


def _make_images(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)
    for suffix in ("png", "jpg", "gif", "bmp", "tiff", "webp", "ppm"):
        Image.fromarray(pixels).save(folder / f"image.{suffix}")


def _read_images(folder: Path) -> Any:
    found = {}
    refused = None
    for path in sorted(folder.iterdir()):
        try:
            pixels = decode(path)
        except TrimtabError as error:
            refused = error
            continue
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 3
        found[path.name] = pixels.tobytes()
    if refused is not None:
        raise refused
    return found


def _make_lists(suffix: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for name in ("a", "b", "c"):
            Image.new("RGB", (4, 3), "red").save(folder / f"{name}.png")
        rows = [{"path": f"{name}.png", "label": "red", "domain": "photo"} for name in ("a", "b", "c")]
        lines = [json.dumps(row) for row in rows]
        if suffix == "csv":
            lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        (folder / f"manifest.{suffix}").write_text("\n".join(lines) + "\n")

    return make


def _read_list(folder: Path) -> Any:
    images = image_folder(folder)
    shapes = [images.load(i).shape for i in range(len(images))]
    return images.class_names, images.labels.tolist(), list(images.ids), list(images.domains or ()), shapes


def _make_results(folder: Path) -> None:
    _make_store(folder)
    run_plan(make_plan([folder / "store"], ["zero_shot", "tda"], seeds=1), folder / "results", workers=1)
    shutil.rmtree(folder / "store")


def _read_records(folder: Path) -> Any:
    results = read_results(folder / "results")
    if refused := getattr(results, "refused", ()):  # the others are still shown
        raise TrimtabError(refused[0])
    return [repr(record) for record in results.records], [_correct(record) for record in results.records]


def _correct(record: Any) -> list[bool]:
    return record.correct_images().tolist() if record.ok else []


def _make_tuned(folder: Path) -> None:
    TunedParameters("tuned", "mcp", {"entropy_slots": 2}, "f" * 64, "small", 3, 0.5, 0.4).save(folder / "tuned.json")


def _read_tuned(folder: Path) -> Any:
    found = TunedParameters.load(folder / "tuned.json")
    return repr(found), make_method(found.method, **found.parameters)


TARGETS: tuple[Target, ...] = (
    Target("state", _make_state, _read_state, "state", promised=True),
    Target("store manifest", _make_store, _read_store, "manifest.json", promised=True),
    Target("store shards", _make_store, _read_store, "*.npy", promised=True),
    Target("store progress", _make_half_a_store, _resume_store, "progress.json", promised=True),
    Target("unfinished store", _make_half_a_store, _resume_store, "*.*", promised=True),
    Target("image", _make_images, _read_images, "image.*", promised=False),
    Target("folder manifest csv", _make_lists("csv"), _read_list, "manifest.csv", promised=False),
    Target("folder manifest jsonl", _make_lists("jsonl"), _read_list, "manifest.jsonl", promised=False),
    Target("record", _make_results, _read_records, "*.json", promised=False),
    Target("tuned parameters", _make_tuned, _read_tuned, "tuned.json", promised=False),
)


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
