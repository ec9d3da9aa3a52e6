"""A cache: a list of items per class, of which the ones of lowest entropy stay."""

from dataclasses import dataclass

from .arithmetic import Vector


@dataclass(frozen=True)
class Item:
    feature: Vector
    entropy: float
    probabilities: Vector | None = None  # only items of the negative cache have them


Cache = dict[int, list[Item]]


def offer_lowest(cache: Cache, label: int, item: Item, slots: int) -> None:
    """Keep the `slots` items of lowest entropy."""
    items = cache.setdefault(label, [])
    if len(items) < slots:
        items.append(item)
    elif items:
        worst = highest_entropy(items)
        if item.entropy < items[worst].entropy:
            items[worst] = item


def highest_entropy(items: list[Item]) -> int:
    worst = 0
    for position, item in enumerate(items):
        if item.entropy > items[worst].entropy:
            worst = position
    return worst
