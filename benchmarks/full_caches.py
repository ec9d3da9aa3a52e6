"""What a trimtab stream holds, in the data structures of the field's style, so that both go on from the same point."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from benchmarks.field_style.common import Cache, Item
from benchmarks.field_style.dmn import Memory
from benchmarks.field_style.dpe import Evolving
from benchmarks.field_style.mcp import Caches
from benchmarks.synthetic import Array
from trimtab import Stream


def items(stream: Stream, section: str) -> Iterator[tuple[int, Array, float, Array]]:
    """(class, feature, entropy, plausible classes) of everything that a section of the bank holds."""
    held = getattr(stream.state, "caches", stream.state)
    bank = held.bank
    span = bank.sections[section]
    for label, slot in np.argwhere(bank.occupied[:, span] > 0):
        plausible = np.zeros(len(bank.occupied), np.float32)
        if section == "negative":
            penalties = held.penalties
            plausible[penalties.marked[label, slot, : penalties.counts[label, slot]]] = 0.5
        where = (int(label), int(span.start + slot))
        yield where[0], bank.item(*where), float(bank.scores[where]), plausible


def cache(stream: Stream, section: str) -> Cache:
    """A section as a dictionary of lists, lowest entropy first."""
    found: Cache = {}
    for label, feature, entropy, plausible in items(stream, section):
        item = Item(torch.from_numpy(feature.copy())[None], entropy, torch.from_numpy(plausible)[None])
        found.setdefault(label, []).append(item)
    for kept in found.values():
        kept.sort(key=lambda item: item.entropy)
    return found


def three_caches(stream: Stream) -> Caches:
    """Of MCP or MCP++."""
    caches = Caches(cache(stream, "entropy"), cache(stream, "align"), cache(stream, "negative"))
    for label in caches.entropy.keys() | caches.align.keys():
        caches.renew(label)
    return caches


def two_caches(stream: Stream) -> tuple[Cache, Cache]:
    """Of TDA or BoostAdapter."""
    return cache(stream, "positive"), cache(stream, "negative")


def memory(stream: Stream) -> Memory:
    """Of DMN."""
    bank = stream.state.bank
    span = bank.sections["memory"]
    features = torch.from_numpy(np.roll(bank.features, -1, axis=1))  # the text prototype goes from first to last
    counts = bank.occupied[:, span].sum(axis=1).astype(int).tolist()
    return Memory(features, torch.from_numpy(bank.scores[:, span].copy()), counts)


def evolving(stream: Stream) -> Evolving:
    """Of DPE."""
    state, found = stream.state, Evolving(_tensor(stream.state.text.mean), int(stream.state.text.updates[0]))
    for label, slot in np.argwhere(np.isfinite(state.scores)):
        item = Item(_tensor(state.features[label, slot])[None], float(state.scores[label, slot]))
        found.cache.setdefault(int(label), []).append(item)
    for kept in found.cache.values():
        kept.sort(key=lambda item: item.entropy)
    return found


def _tensor(array: Array) -> Tensor:
    return torch.from_numpy(array.copy())
