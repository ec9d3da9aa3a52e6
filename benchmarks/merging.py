"""Eight streams that merge, eight that do not, and one that sees everything: accuracy and bytes.

    python -m benchmarks.merging FOLDER METHOD STREAMS EVERY[,EVERY...] SEEDS [STORE ...]

FOLDER holds .npz files as in benchmarks.fusion_study.stores. Each is run by `trimtab adapt`'s own road, here on one
machine, which gives the bits that a cluster gives. Bytes are what the streams send and fetch for each image: holdings
(names and times) to the driver, and the snapshot of each round back to every stream.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.command_line import FOLDER, STORES, method_name, run_study, whole, wholes
from benchmarks.fusion_study.stores import Store, load_stores
from trimtab.cluster.adapt import adapt_streams
from trimtab.cluster.adapt_plan import AdaptPlan, Division
from trimtab.features import FeatureStore

LIMIT = 3000  # images


class Measured:
    """One store on the disk, for as long as its runs take."""

    def __init__(self, store: Store, root: Path, method: str, streams: int, seed: int) -> None:
        rows = np.random.default_rng(seed).permutation(len(store.labels))[:LIMIT]
        names = [str(c) for c in range(len(store.text))]
        self.root, self.method, self.streams, self.seed = root, method, streams, seed
        self.store = FeatureStore.from_arrays(
            root / f"store-{seed}",
            store.features[rows, :1],
            store.labels[rows],
            store.text,
            names,
            store.logit_scale,
        )

    def run(self, name: str, streams: int, every: int, merging: bool) -> tuple[float, float, float]:
        """Accuracy in percent, seconds, bytes per image."""
        plan = AdaptPlan(str(self.store.path), self.store.fingerprint, self.method, streams, every, merging)
        out = self.root / f"{name}-{self.seed}"
        total = [0]
        start = time.perf_counter()
        adapted = adapt_streams(plan, out, progress=lambda *_: total.append(rounds_snapshots(out, streams)))
        seconds = time.perf_counter() - start
        sent = sum(path.stat().st_size for path in out.glob("round-*.npz")) + sum(total)
        right = 100 * float(np.mean(adapted.labels == self.store.labels))
        assert Division(plan).rounds == len(total) - 1
        return right, seconds, sent / len(self.store)


def rounds_snapshots(out: Path, streams: int) -> int:
    """Bytes of the snapshot that was written last, fetched by every stream."""
    newest = max(out.glob("merged-*.safetensors"), default=None)
    return streams * newest.stat().st_size if newest else 0


def main(folder: Path, method: str, streams: int, rounds: list[int], seeds: int, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    heads = [f"{streams} merging every {every}" for every in rounds]
    print(f"| store | images | zero-shot | {streams} alone | {' | '.join(heads)} | 1 whole | KB per image |")
    print("|---|---|---|---|" + "---|" * (len(rounds) + 2))
    for store in stores:
        cells, kilobytes = [], []
        with tempfile.TemporaryDirectory() as temporary:
            for seed in range(seeds):
                measured = Measured(store, Path(temporary), method, streams, seed)
                plain = measured.store.rows(slice(None))[:, 0].astype(np.float32) @ store.text.T
                found = [100 * float(np.mean(plain.argmax(axis=1) == measured.store.labels))]
                found.append(measured.run("alone", streams, 1000, False)[0])
                merged = [measured.run(f"merging-{every}", streams, every, True) for every in rounds]
                found += [right for right, _, _ in merged]
                kilobytes.append([sent / 1000 for _, _, sent in merged])
                found.append(measured.run("whole", 1, 1000, False)[0])
                cells.append(found)
        means = [f"{cell:.2f}" for cell in np.mean(cells, axis=0)]
        sent = ", ".join(f"{cell:.1f}" for cell in np.mean(kilobytes, axis=0))
        print(f"| {store.name} | {len(measured.store):,} | {' | '.join(means)} | {sent} |", flush=True)


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, method_name(), whole("STREAMS"), wholes("EVERY"), whole("SEEDS"), STORES)
