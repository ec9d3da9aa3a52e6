"""States of the formats before, as this version reads them.

What a stream had learned stays as it is. What streams learn besides since then begins as in a new stream (`NEW`), or as
what the state shows of it (`GROWN`): a mean over many images that began at nothing would need hundreds to recover.
A snapshot that a guard keeps (`good.*`) holds the same arrays; it was a single one, and is now the first of a ring.
What means something else by now (`ANEW`) begins anew. What streams no longer keep (`GONE`, `SHRUNK`) is left out. Items
lay slot by slot; now slots know where their items lie (`LIES`). Nothing else is mended: what differs otherwise is
refused.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Arrays
from trimtab.engine.equations import softmax
from trimtab.task import Task

BEFORE = (2, 3, 4, 5, 6, 7, 8, 9, 10)  # the formats that are read beside the present one

# What was just there (fusion/context.py): up to format 10 it was what all parts said, and is what the text says.
ANEW = {"fusion.context_sums", "fusion.context_recent", "fusion.context_shares"}
NEW = {
    *ANEW,
    *(f"fusion.names_{name}" for name in ("usual", "lately", "counts", "shares", "figures")),  # fusion/foretelling.py
    "fusion.loudness",  # how sure answers should be (fusion/loudness.py)
    *(f"state.{owner}halves.{name}" for owner in ("", "mcp.") for name in ("habits", "figures")),  # engine/halves.py
    *(  # how loudly names speak (engine/leveling.py): as they are
        f"state.{owner}temper.level_{name}" for owner in ("", "mcp.") for name in ("sums", "gains", "offsets", "share")
    ),
    "guard.taken_back",  # which answers were the text's (guard/watch.py): none
    *(f"guard.runs.{who}.context_{name}" for who in ("text", "answers") for name in ("sums", "recent", "shares")),
    "guard.runs.scale",  # whether classes come in runs (guard/runs.py)
}
GONE = {"guard.runs.recent", "guard.runs.usual", "guard.runs.figures"}  # the same question, asked in another way
NEW_OF_METHOD = {
    "dpe": {"state.sources"},  # which images the cache holds: not known
    "keel": {
        "state.memory.habit",  # what is taken off the text (engine/whitening.py): the next fit finds it
        "state.memory.answers",  # what humans have said that images show: nothing
        "state.reputation.chance_figures",  # how often the memory is supported by chance (methods/keel.py): often
    },
}

# Arrays that have another place at their end, by the end of their names.
TEMPER = ".temper.figures"  # how sure the text is at the scale that the task states (engine/temper.py)
WINDOW = ".health.window"  # whether an answer was taken back (guard/health.py): none was
DETAILS = "guard.details"  # how far images were from their neighbors (guard/judging.py): not told
# The same as a figure, a difference of cosines: as high as can be for the last images, so that nothing is far until
# half of them are new ones, and as low as can be for those learned, of which none was.
ALONE = (".admission.window", ".admission.medians")
RECORD = ".admission.record"
LOUDNESS = "fusion.loudness"  # how much louder parts that come weighed make a product (fusion/loudness.py): not at all
GROWN = (TEMPER, WINDOW, DETAILS, *ALONE, RECORD, LOUDNESS)
# Arrays that have lost a place at their end: how often retrieval sided with the memory (methods/keel.py).
SHRUNK = (".reputation.figures",)

# Where the items of a bank lie (engine/pool.py): each slot's in a row of its own, in the order of the slots.
ITEMS, OCCUPIED = ".bank.features", ".bank.occupied"
LIES = (".bank.places", ".bank.holders", ".bank.row_figures")

GOOD = "good."  # what the names of the arrays in a snapshot begin with
ITSELF = 0.999  # an item as near as this to a text is the text, which some banks hold beside the images
FEW = 512  # items to find the text's mean confidence on


def upgraded_guard(parameters: dict[str, Any]) -> dict[str, Any]:
    """A guard's parameters; `snapshots` was a switch, and is a number."""
    kept = parameters.get("snapshots")
    return {**parameters, "snapshots": int(kept)} if isinstance(kept, bool) else parameters


def upgraded_arrays(method: str, task: Task, saved: Arrays, start: Arrays) -> Arrays:
    """A state's arrays, completed; `start` are those of a new stream of the same method, task and guard."""
    found = {name: array for name, array in saved.items() if name not in GONE}
    found |= _where_items_lie(saved, start)
    new = NEW | NEW_OF_METHOD.get(method, set())
    for name, live in start.items():
        plain = name.removeprefix(GOOD)
        begins: NDArray[Any] = np.broadcast_to(start.get(plain, live), live.shape)
        if name not in saved or plain in ANEW:
            if plain in new:
                found[name] = begins
            continue
        array = saved[name]
        if name.replace(ITEMS, LIES[0]) in start and name.endswith(ITEMS) and array.ndim >= 3:
            array = array.reshape(*array.shape[:-3], -1, array.shape[-1])
        if name != plain and array.ndim == live.ndim - 1:
            array = array[None]
        was = (*live.shape[:-1], live.shape[-1] - 1)
        if plain.endswith(GROWN) and (array.dtype, array.shape) == (live.dtype, was):
            array = np.concatenate([array, _last_place(plain, begins[..., -1:], saved, task)], axis=-1)
        if plain.endswith(SHRUNK) and array.shape == (*live.shape[:-1], live.shape[-1] + 1):
            array = array[..., :-1]
        found[name] = array
    return found


def _where_items_lie(saved: Arrays, start: Arrays) -> Arrays:
    """Of each bank whose slots know where their items lie; a snapshot's arrays have a dimension more."""
    found: Arrays = {}
    for name, occupied in saved.items():
        bank = name.removesuffix(OCCUPIED)
        if not name.endswith(OCCUPIED) or f"{bank}{LIES[0]}" not in start:
            continue
        held = occupied.reshape(-1, *occupied.shape[-2:]).astype(np.bool_)
        numbers = np.arange(held[0].size, dtype=np.int32).reshape(held[0].shape)
        flat = held.reshape(len(held), -1)
        used = [int(row.nonzero()[0].max(initial=-1)) + 1 for row in flat]
        free = [len(row) if row.all() else int(row.argmin()) for row in flat]
        places, holders = np.where(held, numbers, np.int32(-1)), flat.astype(np.int32)
        arrays: tuple[NDArray[Any], ...] = (places, holders, np.array([used, free], np.int64).T)
        for ending, array in zip(LIES, arrays, strict=True):
            shape = start[f"{bank}{ending}"].shape
            found[f"{bank}{ending}"] = array.reshape(shape) if array.size == np.prod(shape) else array
    return found


def _last_place(name: str, begins: NDArray[Any], saved: Arrays, task: Task) -> NDArray[Any]:
    """(..., 1): what an array that has grown holds at its end; `begins` in a new stream."""
    if name.endswith(TEMPER):
        return np.full_like(begins, _text_confidence(saved, task))
    if name.endswith(ALONE):
        return np.full_like(begins, 2)
    if name.endswith(RECORD):
        return np.full_like(begins, -2)
    return begins


def _text_confidence(saved: Arrays, task: Task) -> float:
    """How sure the text is of the images that the caches hold, at the scale that the task states; 0 without any."""
    banks = [array for name, array in saved.items() if name.endswith(ITEMS)]
    rows = [bank.reshape(-1, task.dim) for bank in banks if bank.shape[-1:] == (task.dim,)]
    items = np.concatenate([row[row.any(axis=1)] for row in rows]) if rows else np.zeros((0, task.dim), np.float32)
    some = items[np.random.default_rng(0).permutation(len(items))[:FEW]]
    cosines = some @ task.text_prototypes.T
    images = cosines[cosines.max(axis=1) < ITSELF]
    return float(softmax(task.logit_scale * images).max(axis=1).mean()) if len(images) else 0.0
