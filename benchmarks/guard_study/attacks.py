"""Attacks x methods x guard over many stores: what docs/poisoning.md shows.

    python -m benchmarks.guard_study.attacks FOLDER OUT METHODS IMAGES ORDERS [STORE ...]

FOLDER holds .npz files as in benchmarks.fusion_study.stores. One JSON per store goes to OUT; a store that is there is
kept, so that the same command continues.
"""

import json
from pathlib import Path

from benchmarks.command_line import FOLDER, METHODS, STORES, place, run_study, whole
from benchmarks.fusion_study.stores import load_stores
from trimtab.errors import TrimtabError
from trimtab.study.attack.crafting import ATTACKS
from trimtab.study.attack.trial import try_attacks
from trimtab.task import Task


def main(folder: Path, out: Path, methods: list[str], images: int, orders: int, wanted: list[str]) -> None:
    stores = load_stores(folder, wanted)
    out.mkdir(parents=True, exist_ok=True)
    for store in stores:
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


def written_in(folder: Path) -> list[Path]:
    """The files that the study has written."""
    found = sorted(folder.glob("*.json"))
    if not found:
        raise TrimtabError(f"{folder} holds no outcomes; python -m benchmarks.guard_study.attacks writes them.")
    return found


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, place("OUT"), METHODS, whole("IMAGES"), whole("ORDERS"), STORES)
