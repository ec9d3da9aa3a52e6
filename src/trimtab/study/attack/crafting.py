"""Poison for streams: features crafted so that a method stores them under the wrong class, and clean images pay.

An attacker sends images among everybody else's. What an encoder makes of an image can be steered closely enough that
features are the honest place to study it: whatever holds against any feature holds against any image. Each attack takes
a clean stream and gives it back with crafted images in it; only the clean ones are scored.

| attack    | what is sent                                                                      | aimed at           |
|-----------|-----------------------------------------------------------------------------------|--------------------|
| blend     | images mixed with another class's text until the text is sure of it               | entropy caches     |
| noise     | random directions mixed with a class's text                                       | entropy caches     |
| first     | ten blends per class before anything else                                         | a blind start      |
| flood     | one image per class again and again before anything else, then blends             | running statistics |
| inside    | blends that stay within what clean images look like to a guard                    | thresholds         |
| creeping  | blends that begin near the clean images and move away step by step                | moving thresholds  |
| colluding | blends in groups that vouch for each other                                        | asking neighbors   |
| chosen    | genuine images that the text is sure and wrong about, each sent several times     | any guard          |

"inside", "creeping" and "colluding" were made against the guard of this package, with its statistics in sight.
"chosen" needs labels, which an attacker has of his own images.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, unit_rows
from trimtab.engine.equations import softmax
from trimtab.errors import TrimtabError

SURE = 0.999  # probability of the wrong class that a blend is pushed to
SHARE = 0.1  # of the stream that is crafted, where an attack is spread over it
PER_CLASS_FIRST = 10


class Victim(NamedTuple):
    """A clean stream, as an attacker sees it: plain views and their labels, and the text."""

    features: Array  # (N, d), unit rows
    labels: NDArray[np.int64]  # (N,); -1 where the class is not of the task
    text: Array  # (C, d), unit rows
    logit_scale: float


class Poisoned(NamedTuple):
    """The stream that arrives."""

    features: Array  # (M, d)
    clean: NDArray[np.bool_]  # (M,): which of them are the victim's, in their order


Attack = Callable[[Victim, np.random.Generator], Poisoned]


def poisoned(name: str, victim: Victim, seed: int = 0) -> Poisoned:
    """The victim's stream under an attack."""
    (found,) = chosen_attacks(name)
    return ATTACKS[found](victim, np.random.default_rng(seed))


def chosen_attacks(names: str) -> list[str]:
    """The attacks that are named, with commas between, or all."""
    if names == "all":
        return list(ATTACKS)
    wanted = names.split(",")
    for name in wanted:
        if name not in ATTACKS:
            raise TrimtabError(f"There is no attack {name!r}; the attacks are {', '.join(ATTACKS)}.")
    return wanted


def blended(victim: Victim, random: np.random.Generator, targets: NDArray[np.int64]) -> Array:
    """(n, d): for each target class an image of another class, mixed with the target's text until the text is sure."""
    bodies = _images_of_others(victim, random, targets)
    return _pushed(bodies, victim.text[targets], targets, victim, SURE)


def _images_of_others(victim: Victim, random: np.random.Generator, targets: NDArray[np.int64]) -> Array:
    """For each target class, an image that is not of it."""
    chosen = random.integers(len(victim.labels), size=len(targets))
    for _ in range(50):
        same = victim.labels[chosen] == targets
        if not same.any():
            break
        chosen[same] = random.integers(len(victim.labels), size=int(same.sum()))
    return victim.features[chosen]


def _pushed(bodies: Array, pulls: Array, targets: NDArray[np.int64], victim: Victim, sure: float) -> Array:
    """normalize(body + a pull) with the least a, by bisection, at which the text gives the target `sure`."""
    low, high = np.zeros(len(bodies)), np.full(len(bodies), 8.0)
    rows = np.arange(len(bodies))
    for _ in range(24):
        middle = (low + high) / 2
        mixed = unit_rows(bodies + middle[:, None] * pulls)
        reached = softmax(np.float32(victim.logit_scale) * (mixed @ victim.text.T))[rows, targets] >= sure
        high, low = np.where(reached, middle, high), np.where(reached, low, middle)
    return unit_rows(bodies + high[:, None] * pulls)


def _spread(victim: Victim, crafted: Array, random: np.random.Generator) -> Poisoned:
    """The crafted images at random places of the stream, in their order."""
    total = len(victim.features) + len(crafted)
    clean = np.ones(total, np.bool_)
    clean[np.sort(random.choice(total, len(crafted), replace=False))] = False
    return _placed(victim, crafted, clean)


def _ahead(victim: Victim, crafted: Array) -> Poisoned:
    return _placed(victim, crafted, np.arange(len(victim.features) + len(crafted)) >= len(crafted))


def _placed(victim: Victim, crafted: Array, clean: NDArray[np.bool_]) -> Poisoned:
    features = np.empty((len(clean), victim.features.shape[1]), np.float32)
    features[clean], features[~clean] = victim.features, crafted
    return Poisoned(features, clean)


def _targets(victim: Victim, random: np.random.Generator, count: int) -> NDArray[np.int64]:
    return random.integers(len(victim.text), size=count)


def _count(victim: Victim) -> int:
    return max(1, round(len(victim.features) * SHARE / (1 - SHARE)))


def blend(victim: Victim, random: np.random.Generator) -> Poisoned:
    """A tenth of the stream are blends."""
    return _spread(victim, blended(victim, random, _targets(victim, random, _count(victim))), random)


def noise(victim: Victim, random: np.random.Generator) -> Poisoned:
    """A tenth of the stream are random directions, pushed to a class's text."""
    targets = _targets(victim, random, _count(victim))
    bodies = unit_rows(random.normal(size=(len(targets), victim.text.shape[1])))
    return _spread(victim, _pushed(bodies, victim.text[targets], targets, victim, SURE), random)


def first(victim: Victim, random: np.random.Generator) -> Poisoned:
    """Ten blends per class before the first clean image."""
    targets = np.repeat(np.arange(len(victim.text)), PER_CLASS_FIRST)
    random.shuffle(targets)
    return _ahead(victim, blended(victim, random, targets))


def flood(victim: Victim, random: np.random.Generator) -> Poisoned:
    """One genuine image, sent 200 times with differences that cannot be seen, then ten blends per class."""
    one = victim.features[random.integers(len(victim.features))]
    dim = len(one)
    copies = unit_rows(one + 0.01 * random.normal(size=(200, dim)) / np.sqrt(dim))
    targets = np.repeat(np.arange(len(victim.text)), PER_CLASS_FIRST)
    random.shuffle(targets)
    return _ahead(victim, np.concatenate([copies, blended(victim, random, targets)]))


def inside(victim: Victim, random: np.random.Generator) -> Poisoned:
    """Of many weak blends (the text is 90 % sure) the tenth whose cosines are most like those of clean images."""
    targets = _targets(victim, random, 8 * _count(victim))
    bodies = _images_of_others(victim, random, targets)
    tried = _pushed(bodies, victim.text[targets], targets, victim, 0.9)
    center = unit_rows(victim.features.mean(axis=0))
    strange = np.zeros(len(tried))
    for told, ours in (
        ((victim.features @ victim.text.T).max(axis=1), (tried @ victim.text.T).max(axis=1)),
        (victim.features @ center, tried @ center),
        (victim.features @ victim.text.mean(axis=0), tried @ victim.text.mean(axis=0)),
    ):
        strange = np.maximum(strange, np.abs(ours - np.median(told)) / max(float(told.std()), 1e-6))
    return _spread(victim, tried[np.sort(np.argsort(strange)[: _count(victim)])], random)


def creeping(victim: Victim, random: np.random.Generator) -> Poisoned:
    """A fifth of the stream: from plain images to full blends in even steps, so that statistics may follow."""
    count = 2 * _count(victim)
    targets = _targets(victim, random, count)
    bodies = _images_of_others(victim, random, targets)
    full = _pushed(bodies, victim.text[targets], targets, victim, SURE)
    share = np.linspace(0.2, 1.0, count)[:, None]
    return _spread(victim, unit_rows((1 - share) * bodies + share * full), random)


def colluding(victim: Victim, random: np.random.Generator) -> Poisoned:
    """A tenth of the stream: blends in groups of eight around one body, near enough to be each other's neighbors."""
    groups = -(-_count(victim) // 8)
    targets = _targets(victim, random, groups)
    bodies = np.repeat(_images_of_others(victim, random, targets), 8, axis=0)
    dim = bodies.shape[1]
    bodies = unit_rows(bodies + 0.35 * random.normal(size=bodies.shape) / np.sqrt(dim))
    targets = np.repeat(targets, 8)
    crafted = _pushed(bodies, victim.text[targets], targets, victim, 0.99)
    return _spread(victim, crafted[: _count(victim)], random)


def chosen(victim: Victim, random: np.random.Generator) -> Poisoned:
    """A tenth of the stream: the genuine images that the text is surest and wrong about, a little changed each time."""
    probabilities = softmax(np.float32(victim.logit_scale) * (victim.features @ victim.text.T))
    wrong = np.flatnonzero(probabilities.argmax(axis=1) != victim.labels)
    count = _count(victim)
    if len(wrong) == 0:
        return _spread(victim, victim.features[:0], random)
    worst = wrong[np.argsort(-probabilities[wrong].max(axis=1))][: max(1, count // 3)]
    sent = victim.features[random.choice(worst, count)]
    return _spread(victim, unit_rows(sent + 0.3 * random.normal(size=sent.shape) / np.sqrt(sent.shape[1])), random)


ATTACKS: dict[str, Attack] = {
    "blend": blend,
    "noise": noise,
    "first": first,
    "flood": flood,
    "inside": inside,
    "creeping": creeping,
    "colluding": colluding,
    "chosen": chosen,
}
