"""CoOp: the context of a prompt, learned from a few labeled images of each class.

Paper: Zhou, Yang, Loy, Liu, "Learning to Prompt for Vision-Language Models", IJCV 2022.

    L = cross-entropy of softmax(s f T(theta)') on labeled images, theta by SGD, warm-up and cosine

The image encoder is frozen, so each image is encoded once; only the text goes through its encoder and back, once per
batch. The released program shows it a new random crop in every epoch: `views` above 1 gives the images that many views
to draw from. Learning can stop anywhere and continue: what an epoch does depends on the seed and its number alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.equations import softmax
from trimtab.errors import TrimtabError
from trimtab.learn.sgd import SGD, Schedule
from trimtab.text_tower import TextTower

DEVIATION = 0.02  # of the random vectors that learning starts from when no words are given


@dataclass(frozen=True)
class CoOp:
    """How a context is learned; the defaults are the released ones. `epochs` of None: by the number of shots."""

    shots: int = 16
    epochs: int | None = None
    learning_rate: float = 2e-3
    warmup_rate: float = 1e-5
    momentum: float = 0.9
    weight_decay: float = 5e-4
    batch: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("shots", "batch"):
            if getattr(self, name) < 1:
                raise TrimtabError(f"{name} must be 1 or more, not {getattr(self, name)}.")
        if self.epochs is not None and self.epochs < 1:
            raise TrimtabError(f"epochs must be 1 or more, not {self.epochs}.")
        if not self.learning_rate > 0:
            raise TrimtabError(f"The learning rate must be a positive number, not {self.learning_rate}.")

    @property
    def schedule(self) -> Schedule:
        """The learning rate of each epoch."""
        return Schedule(self.learning_rate, self.epochs or epochs_for(self.shots), self.warmup_rate)

    def batches(self, epoch: int, images: int) -> list[NDArray[np.int64]]:
        """The images of each batch of an epoch: all of them in a new order, less what does not fill a batch."""
        order = np.random.default_rng([self.seed, epoch]).permutation(images)
        size = min(self.batch, images)
        return [order[start : start + size] for start in range(0, images - size + 1, size)]

    def described(self) -> dict[str, Any]:
        """Everything that decides what is learned, for the file of an unfinished run."""
        return {**asdict(self), "epochs": self.schedule.epochs}


@dataclass(frozen=True, eq=False)
class LearningStep:
    """One step: its epoch and rate, the loss before it, the gradient, and the context and velocity after it."""

    epoch: int
    rate: float
    loss: float
    gradient: Array
    context: Array
    velocity: Doubles


def epochs_for(shots: int) -> int:
    """As released: 50 for one shot, 100 for two to four, 200 for more."""
    return 50 if shots == 1 else 100 if shots <= 4 else 200


def few_shots(labels: NDArray[np.int64], class_names: Sequence[str], shots: int, seed: int) -> NDArray[np.int64]:
    """The indices of `shots` images of each class, drawn by the seed; a class that has fewer is named."""
    if not (labels >= 0).any():
        raise TrimtabError("The images have no labels, and a context is learned from labeled ones.")
    random, chosen = np.random.default_rng(seed), []
    for label, name in enumerate(class_names):
        of_class = np.flatnonzero(labels == label)
        if len(of_class) < shots:
            raise TrimtabError(
                f"The class {name!r} has {len(of_class)} labeled images, but {shots} shots per class are asked for; "
                "lower --shots, or leave the class out."
            )
        chosen.append(np.sort(random.choice(of_class, shots, replace=False)))
    return np.concatenate(chosen)


def start_context(tower: TextTower, length: int, class_specific: bool, classes: int, seed: int) -> Array:
    """(L, w) or (C, L, w) random vectors of the tower's width, as released: normal with deviation 0.02."""
    width = tower.start.shape[-1]
    shape = (classes, length, width) if class_specific else (length, width)
    return (DEVIATION * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def learn_coop(
    recipe: CoOp,
    tower: TextTower,
    features: Array,
    labels: NDArray[np.int64],
    logit_scale: float,
    *,
    start: Array | None = None,
    batches: Callable[[int], Sequence[NDArray[np.int64]]] | None = None,
    resumed: tuple[int, Array, Doubles] | None = None,
) -> Iterator[LearningStep]:
    """Learn from features (N, V, d) or (N, d) of labeled images, step by step.

    `batches(epoch)` gives the images of each batch where not the recipe's own are wanted; `resumed` is the first epoch
    that is not done yet, with the context and the velocity that the one before it ended with.
    """
    views = features[:, None] if features.ndim == 2 else features
    first, context, velocity = resumed or (0, tower.start if start is None else start, None)
    optimizer = SGD(recipe.momentum, recipe.weight_decay)
    optimizer.velocity = velocity
    for epoch in range(first, recipe.schedule.epochs):
        rate = recipe.schedule.rate(epoch)
        shown = _shown(views, recipe.seed, epoch)
        for batch in batches(epoch) if batches else recipe.batches(epoch, len(views)):
            loss, slopes = cross_entropy(shown[batch], labels[batch], tower.features(context), logit_scale)
            gradient = tower.pullback(context, slopes)
            context = optimizer.step(context, gradient, rate)
            if not (np.isfinite(loss) and np.isfinite(context).all()):
                raise TrimtabError(
                    f"Learning has come to NaN or infinity in epoch {epoch + 1}; use a smaller learning rate than "
                    f"{recipe.learning_rate:g}."
                )
            assert optimizer.velocity is not None
            yield LearningStep(epoch, rate, loss, gradient, context, optimizer.velocity)


def cross_entropy(features: Array, labels: NDArray[np.int64], text: Array, scale: float) -> tuple[float, Array]:
    """The mean loss of labeled images (B, d) under a text (C, d), and its slopes (C, d) at the text."""
    logits: Any = (np.float32(scale) * (features @ text.T)).astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = np.log(np.exp(shifted).sum(axis=1)) - shifted[rows, labels]
    slopes = softmax(logits)
    slopes[rows, labels] -= 1
    return float(loss.mean()), np.asarray(scale / len(labels) * (slopes.T @ features), np.float32)


def _shown(views: Array, seed: int, epoch: int) -> Array:
    """(N, d): one view of each image, drawn for the epoch."""
    count, several = views.shape[:2]
    if several == 1:
        return views[:, 0]
    drawn = np.random.default_rng([seed, epoch, several]).integers(several, size=count)
    return views[np.arange(count), drawn]
