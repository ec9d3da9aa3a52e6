"""Names that were translated into CLIP's space: what leveling them is worth (docs/weights-without-labels.md).

    python -m benchmarks.names_study FOLDER KNOWN ORDERS [STORE ...]

FOLDER holds .npz files as in benchmarks.fusion_study.stores, with `class_names`. KNOWN is the name of one whose texts
are taken as known. Every other store's names are embedded by lite's sentence encoder, and become means of the known
texts, weighed by exp(sharpness * cosine of the embeddings): a name that is near to a known one becomes about that text,
any other a mean of many. Prints Markdown: zero-shot top-1 in percent, the spread of the names' log deviations, and
MCP's difference to zero-shot without leveling and with it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, STORES, Argument, run_study, words
from benchmarks.fusion_study.stores import Store, load_stores
from benchmarks.fusion_study.streams import ORDERS, arranged
from trimtab import MCP, Task
from trimtab.encoders.lite.encoder import LiteEncoder
from trimtab.errors import TrimtabError

SHARPNESSES = (8, 12, 16, 24)

Array = NDArray[np.float32]


def translated(stores: Iterable[Store], known: Store) -> Iterator[tuple[str, Store]]:
    """The stores with other texts, and what to call them."""
    encoder, texts = LiteEncoder(), known.text
    embedded = _embedded(encoder, _names(known))
    for store in stores:
        if store.class_names is None or store.name == known.name or store.text.shape[1] != texts.shape[1]:
            continue
        own = _embedded(encoder, store.class_names)
        for sharpness in SHARPNESSES:
            yield f"{store.name}, {sharpness}", replace(store, text=_unit(np.exp(sharpness * own @ embedded.T) @ texts))


def _names(store: Store) -> NDArray[np.str_]:
    if store.class_names is None:
        raise TrimtabError(
            f"{store.name} has no class_names, so its texts cannot translate others; name another store."
        )
    return store.class_names


def _embedded(encoder: LiteEncoder, names: NDArray[np.str_]) -> Array:
    sentences = [f"a photo of a {str(name).split(',')[0]}." for name in names]
    return _unit(encoder._sentence_features(sentences))


def _unit(rows: Array) -> Array:
    found: Array = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return found


def spread(store: Store) -> float:
    """How far the names' deviations over the images lie apart, in logarithms."""
    cosines = store.features[:, 0] @ store.text.T
    return float(np.log((cosines - cosines.mean(axis=1, keepdims=True)).std(axis=0)).std())


def main(folder: Path, known: str, orders: list[str], wanted: list[str]) -> None:
    stores, (source,) = load_stores(folder, wanted), load_stores(folder, [known])
    print("| names | order | zero-shot | spread | as they are | leveled |\n|---|---|---|---|---|---|")
    found: dict[str, list[list[float]]] = {order: [] for order in orders}
    for name, store in translated(stores, source):
        for order in orders:
            stream = arranged(store, order, 0)
            task = Task([str(c) for c in range(len(stream.text))], stream.text, store.logit_scale)
            features = store.features[stream.indices]
            zero_shot = stream.accuracy(features[:, 0] @ stream.text.T)
            runs = (MCP(level_names=level).start(task).run(features, keep_parts=False) for level in (False, True))
            gains = [stream.accuracy(run.probabilities) - zero_shot for run in runs]
            found[order].append(gains)
            cells = " | ".join(f"{gain:+.1f}" for gain in gains)
            print(f"| {name} | {order} | {zero_shot:.1f} | {spread(store):.2f} | {cells} |", flush=True)
    for order, rows in found.items():
        if not rows:
            raise TrimtabError(
                f"No store beside {known} has class_names and texts of its dimensions; add one to {folder}."
            )
        plain, leveled = np.array(rows).T
        most, least = (leveled - plain).max(), (leveled - plain).min()
        print(f"| **mean** | {order} | | | {plain.mean():+.1f} | {leveled.mean():+.1f} |")
        print(f"| **gained, most and least** | {order} | | | | {most:+.1f}, {least:+.1f} |")


if __name__ == "__main__":
    run_study(main, __doc__, FOLDER, Argument("KNOWN", str), words("ORDERS", ORDERS), STORES)
