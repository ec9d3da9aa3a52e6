"""Attacks x methods x guard over many stores: what docs/poisoning.md shows.

    python -m benchmarks.guard_study.attacks FOLDER OUT METHODS IMAGES ORDERS [STORE ...]

FOLDER holds .npz files as in benchmarks.fusion_study.stores. One JSON per store goes to OUT; a store that is there is
kept, so that the same command continues.
"""

import json
import sys
from pathlib import Path

from benchmarks.fusion_study.stores import load_stores
from trimtab.study.attack.crafting import ATTACKS
from trimtab.study.attack.trial import try_attacks
from trimtab.task import Task


def main(folder: Path, out: Path, methods: list[str], images: int, orders: int, wanted: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for store in load_stores(folder, wanted):
        written = out / f"{store.name}-{'-'.join(methods)}.json"
        if written.exists():
            continue
        task = Task([str(c) for c in range(len(store.text))], store.text, store.logit_scale)
        found = try_attacks(
            store.name,
            task,
            store.features[:, 0],
            store.labels,
            methods=methods,
            attacks=list(ATTACKS),
            orders=orders,
            images=images,
        )
        written.write_text(json.dumps(found.data(), indent=1))
        print(store.name, flush=True)


if __name__ == "__main__":
    _, place, target, names, count, seeds, *stores = sys.argv
    main(Path(place), Path(target), names.split(","), int(count), int(seeds), stores)
