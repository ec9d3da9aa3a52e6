"""Contents: what a stream's caches hold, item by item, for people to look at."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.equations import entropy, softmax
from trimtab.serve.memory import Memory


def contents(memory: Memory, label: int | None = None) -> list[dict[str, Any]]:
    """Per class, or of one: each item's id (None if it is too old to tell), cache, age in images, and entropy."""
    task, seen = memory.task, memory.stream.seen
    wanted = range(task.classes) if label is None else (label,)
    found: dict[int, list[dict[str, Any]]] = {each: [] for each in wanted}
    for bank in memory.stream.state.banks():
        for cache, span in bank.sections.items():
            places = np.argwhere(bank.sources[:, span] >= 0)
            for each, slot in places[np.isin(places[:, 0], wanted)].tolist():
                position = int(bank.sources[each, span][slot])
                feature = bank.item(each, span.start + slot)
                text = softmax(task.logit_scale * (feature[None] @ task.text_prototypes.T))
                item = {
                    "id": memory.lineage.id_of(position),
                    "position": position,
                    "cache": cache,
                    "age": seen - position,
                    "entropy": float(entropy(text)[0]),
                }
                found[each].append(item)
    return [{"label": task.class_names[each], "items": items} for each, items in found.items()]


def held_positions(memory: Memory) -> NDArray[np.int64]:
    """The positions of all images that some cache holds, in order."""
    held = [bank.sources[bank.sources >= 0] for bank in memory.stream.state.banks()]
    return np.unique(np.concatenate(held)) if held else np.zeros(0, np.int64)
