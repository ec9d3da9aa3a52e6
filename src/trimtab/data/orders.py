"""The orders in which a stream may meet the images of a set, as pure functions that return index arrays.

Methods that remember what they saw depend on the order, so it is always chosen, named and seeded. Every function
returns `int64` indices into the set: a permutation of it, or (where the docstring says so) a part of it. The same
arguments give the same order on every machine. `order_by_name` takes them as a command line or a plan of runs gives
them ("dirichlet:0.1"); open-set streams also hold images of classes that the task does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError

Indices = NDArray[np.int64]
MOST_SLOTS: Final = 100  # beyond 100 classes the usual Dirichlet construction stops adding slots

# What to write -> what one gets. The letters stand for numbers, "names" for domains with commas between.
ORDERS: Final[dict[str, str]] = {
    "stored": "as the set has them",
    "shuffled": "uniformly random (the papers' default)",
    "class-sorted": "one class after another",
    "dirichlet:A": "classes correlated in time; small A means long runs (0.1 is usual)",
    "domain-sequence[:names]": "one domain after another, in the order given or of first appearance",
    "domain-mixture[:names]": "domains shuffled together",
    "long-tailed:R": "a part whose most common class is R times its rarest",
    "few-classes:K": "K classes at a time, then the next K",
}


def order_by_name(name: str, *, labels: ArrayLike, domains: Sequence[str] | None = None, seed: int = 0) -> Indices:
    """The indices of the order that `name` describes (see ORDERS), drawn with `seed`."""
    kind, _, argument = arguments.text("the order's name", name).strip().partition(":")
    known = arguments.class_indices("labels", labels)
    _seed(seed)
    match kind:
        case "stored":
            order = as_stored(len(known))
        case "shuffled":
            order = shuffled(len(known), seed=seed)
        case "class-sorted":
            order = class_sorted(known, seed=seed)
        case "dirichlet":
            return dirichlet(known, _number(name, argument), seed=seed)
        case "long-tailed":
            return long_tailed(known, _number(name, argument), seed=seed)
        case "few-classes":
            return few_classes(known, _whole(name, argument), seed=seed)
        case "domain-sequence" | "domain-mixture":
            if domains is None:
                raise TrimtabError(f"The order {name!r} needs a set with domains, and this one has none.")
            which = [part.strip() for part in argument.split(",")] if argument else None
            make = domain_sequence if kind == "domain-sequence" else domain_mixture
            return make(domains, seed=seed, which=which)
        case _:
            raise TrimtabError(f"There is no order {name!r}; choose one of {', '.join(ORDERS)}.")
    if argument:
        raise TrimtabError(f"The order {kind!r} takes nothing after a colon, but {argument!r} was given.")
    return order


def as_stored(count: int) -> Indices:
    """0, 1, 2, ...: the order of the set itself."""
    return np.arange(arguments.whole("count", count, least=0), dtype=np.int64)


def shuffled(count: int, *, seed: int) -> Indices:
    """A uniformly random order: the papers' default."""
    return _seed(seed).permutation(arguments.whole("count", count, least=0)).astype(np.int64)


def class_sorted(labels: ArrayLike, *, seed: int | None = None) -> Indices:
    """One class after another: by class index and as stored; with a seed, classes and their images are shuffled."""
    known = _checked_labels(labels, "class-sorted")
    if seed is None:
        return np.argsort(known, kind="stable").astype(np.int64)
    rng = _seed(seed)
    return _joined([_images_of(known, c, rng) for c in rng.permutation(np.unique(known))])


def dirichlet(labels: ArrayLike, alpha: float, *, seed: int, slots: int | None = None) -> Indices:
    """Neighboring images share classes: small `alpha` means long runs of few classes.

    The construction usual in test-time adaptation: time is cut into `slots` (as many as classes, at most 100), a
    Dirichlet(alpha) draw spreads each class over the slots, and a slot plays the classes it got one after another.
    """
    known = _checked_labels(labels, "Dirichlet")
    arguments.positive("alpha of a Dirichlet order", alpha)
    classes = np.unique(known)
    count = min(len(classes), MOST_SLOTS) if slots is None else arguments.whole("slots", slots, least=1)
    rng = _seed(seed)
    contents: list[list[Indices]] = [[] for _ in range(count)]
    for c in classes:
        images = _images_of(known, c, rng)
        shares = rng.dirichlet(np.full(count, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(images)).astype(np.int64)
        for slot, part in zip(contents, np.split(images, np.minimum(cuts, len(images))), strict=True):
            slot.append(part)
    return _joined([slot[k] for slot in contents for k in rng.permutation(len(slot))])


def domain_sequence(domains: Sequence[str], *, seed: int, which: Sequence[str] | None = None) -> Indices:
    """One domain after another, shuffled within: by first appearance, or only those in `which` and in its order."""
    names, wanted = _checked_domains(domains, which)
    rng = _seed(seed)
    return _joined([rng.permutation(np.flatnonzero(names == name)) for name in wanted])


def domain_mixture(domains: Sequence[str], *, seed: int, which: Sequence[str] | None = None) -> Indices:
    """All domains (or those in `which`, a part of the set) shuffled together."""
    names, wanted = _checked_domains(domains, which)
    return _seed(seed).permutation(np.flatnonzero(np.isin(names, wanted))).astype(np.int64)


def long_tailed(labels: ArrayLike, imbalance: float, *, seed: int) -> Indices:
    """A shuffled part whose class counts fall geometrically: the most common is `imbalance` times the rarest.

    Which class is common is drawn by the seed. No class has more images than it has, and none fewer than one.
    """
    known = _checked_labels(labels, "long-tailed")
    arguments.number("imbalance", imbalance, least=1)
    rng = _seed(seed)
    classes, available = np.unique(known, return_counts=True)
    rank = rng.permutation(len(classes))
    wanted = available.max() * imbalance ** (-rank / max(len(classes) - 1, 1))
    keep = np.clip(np.rint(wanted), 1, available).astype(np.int64)
    kept = _joined([_images_of(known, c, rng)[:n] for c, n in zip(classes, keep, strict=True)])
    return rng.permutation(kept)


def few_classes(labels: ArrayLike, at_a_time: int, *, seed: int) -> Indices:
    """`at_a_time` classes after another: each group's images are shuffled together, then the next group comes."""
    known = _checked_labels(labels, "few-classes")
    arguments.whole("at_a_time", at_a_time, least=1)
    rng = _seed(seed)
    classes = rng.permutation(np.unique(known))
    groups = [classes[start : start + at_a_time] for start in range(0, len(classes), at_a_time)]
    return _joined([rng.permutation(np.flatnonzero(np.isin(known, group))) for group in groups])


@dataclass(frozen=True, eq=False)
class OpenSet:
    """An order, and which of its images are unknown.

    `unknown[t]` says whether the t-th image of the stream, `indices[t]`, belongs to no class of the task;
    `known_classes` are the classes that the task keeps, ascending: build its text prototypes from these only.
    """

    indices: Indices  # (T,)
    unknown: NDArray[np.bool_]  # (T,)
    known_classes: NDArray[np.int64]  # (K,)

    def task_labels(self, labels: ArrayLike) -> NDArray[np.int64]:
        """Labels in the order of the stream, renumbered to `known_classes`; -1 for unknown images."""
        original = arguments.class_indices("labels", labels)[self.indices]
        position = np.searchsorted(self.known_classes, original)
        return np.where(self.unknown, -1, position).astype(np.int64)


def held_out_classes(labels: ArrayLike, share: float, *, seed: int) -> OpenSet:
    """Take away a `share` of the classes, drawn by the seed; their images stay in the shuffled stream as unknown."""
    known = arguments.class_indices("labels", labels)
    arguments.number("share", share, least=0, most=1)
    if known.size and known.min() < 0:
        raise TrimtabError("Holding classes out needs a label for every image, but some images have none.")
    classes = np.unique(known)
    count = round(share * len(classes))
    if not 1 <= count <= len(classes) - 2:
        raise TrimtabError(
            f"Holding out {share} of {len(classes)} classes takes {count} away; "
            "choose a share that takes at least one and leaves at least two."
        )
    rng = _seed(seed)
    held_out = rng.choice(classes, size=count, replace=False)
    indices = rng.permutation(len(known)).astype(np.int64)
    return OpenSet(indices, np.isin(known[indices], held_out), np.setdiff1d(classes, held_out))


def mixed_with_unknown(labels: ArrayLike, unknown_count: int, share: float, *, seed: int) -> OpenSet:
    """Mix images of another set into this one, so that a `share` of the stream is unknown.

    Indices count on: the images of this set come first, those of the other follow (`len(labels)` is its first).
    When there are too few images of one kind for the share, the other kind is cut down, never the share.
    """
    known = arguments.class_indices("labels", labels)
    arguments.whole("unknown_count", unknown_count, least=0)
    if not 0 < arguments.number("share", share) < 1:
        raise TrimtabError(f"The share of unknown images must lie between 0 and 1, not {share}.")
    if unknown_count < 1 or len(known) < 1:
        raise TrimtabError(f"There are {len(known)} known and {unknown_count} unknown images; both must be present.")
    keep_known = min(len(known), round(unknown_count * (1 - share) / share))
    keep_unknown = min(unknown_count, round(keep_known * share / (1 - share)))
    if keep_known < 1 or keep_unknown < 1:
        raise TrimtabError(f"A share of {share} leaves no image of one kind; choose a share nearer to one half.")
    rng = _seed(seed)
    kept = np.concatenate(
        [
            rng.choice(len(known), size=keep_known, replace=False),
            len(known) + rng.choice(unknown_count, size=keep_unknown, replace=False),
        ]
    )
    indices = rng.permutation(kept).astype(np.int64)
    return OpenSet(indices, indices >= len(known), np.unique(known[known >= 0]))


def _number(name: str, argument: str) -> float:
    try:
        return float(argument)
    except ValueError:
        raise TrimtabError(f"The order {name!r} needs a number after the colon, as in 'dirichlet:0.1'.") from None


def _whole(name: str, argument: str) -> int:
    number = _number(name, argument)
    if number != int(number):
        raise TrimtabError(f"The order {name!r} needs a whole number after the colon, not {argument}.")
    return int(number)


def _checked_labels(labels: ArrayLike, order: str) -> NDArray[np.int64]:
    known = arguments.class_indices("labels", labels)
    _check(len(known) > 0, f"A {order} order needs images, and there are none.")
    _check(
        not (known < 0).any(),
        f"A {order} order needs a label for every image, but {int((known < 0).sum())} of {len(known)} have none.",
    )
    return known


def _checked_domains(domains: Sequence[str], which: Sequence[str] | None) -> tuple[NDArray[np.str_], list[str]]:
    names = np.asarray(arguments.names("domains", domains), dtype=np.str_)
    present = list(dict.fromkeys(names.tolist()))
    wanted = present if which is None else list(arguments.names("which", which))
    unknown = [name for name in wanted if name not in present]
    _check(not unknown, f"There is no domain {unknown[:1]}; this set has {', '.join(present) or 'none'}.")
    _check(len(set(wanted)) == len(wanted), f"A domain is named twice in {', '.join(wanted)}; name each once.")
    return names, wanted


def _images_of(labels: NDArray[np.int64], which: int, rng: np.random.Generator) -> Indices:
    return rng.permutation(np.flatnonzero(labels == which)).astype(np.int64)


def _joined(parts: Sequence[Indices]) -> Indices:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _seed(seed: int) -> np.random.Generator:
    return np.random.default_rng(arguments.whole("seed", seed, least=0, most=2**32 - 1))


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise TrimtabError(otherwise)
