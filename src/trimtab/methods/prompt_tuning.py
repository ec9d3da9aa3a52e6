"""Prompt tuning for one image: what TPT and its relatives share.

The context, a few word embeddings that stand before every class name, is tuned for one image and then forgotten:

    T(theta) = text features under the context theta        z_n = s f_n T'
    S = the confident views under theta_0, chosen once      L = loss of z_S  (+ a loss of T alone)
    theta <- AdamW(theta, dL/dtheta), K times               answer: view 0 under T(theta)

The images' features need no gradient, so features that were encoded once serve. The slopes of a loss at T are formulas;
the text tower (`Task.text_tower`) pulls them back to the context. The first forward pass is the same for every image:
`new_state` makes it once. Released programs differ in four places, and each is a method here to override: `chosen`,
`view_loss`, `text_loss` and `answer`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.adamw import AdamW
from trimtab.engine.arrays import Array, Floats
from trimtab.engine.block import Image
from trimtab.engine.equations import entropy, softmax
from trimtab.engine.operations import Size
from trimtab.engine.parameters import Range, number, parameter
from trimtab.engine.residuals import entropy_slopes
from trimtab.engine.state import Nothing
from trimtab.errors import TrimtabError
from trimtab.methods.base import Method, share_of_views
from trimtab.methods.facts import PAPER_SETS, Templates
from trimtab.task import Task
from trimtab.text_tower import TextTower

ValueAndSlopes = tuple[float, Floats]
Stage = Callable[[Array, Array, float], tuple[float, Array]]  # (views, text, scale) -> loss, slopes (C, d) at the text


@dataclass(frozen=True, eq=False)
class StartText(Nothing):
    """The text under the context that every image starts from. Nothing is learned, so nothing is saved."""

    text: Array = field(repr=False)  # (C, d), unit rows


@dataclass(frozen=True, eq=False)
class TuningStep:
    """One step of the optimizer: the text before it, the loss there, its gradient, and the context after the step."""

    text: Array  # (C, d)
    loss: float
    gradient: Array  # as the context
    context: Array


@dataclass(frozen=True, kw_only=True)
class PromptTuner(Method):
    """Base of the methods that tune the prompt's context for one image. Nothing is kept between images."""

    parts: ClassVar[tuple[str, ...]] = ("tuned",)
    needs: ClassVar[frozenset[str]] = frozenset({"text_tower"})
    templates: ClassVar[Templates] = dict.fromkeys(PAPER_SETS, "photo")  # the words that the context starts from

    learning_rate: float = number(
        5e-3,
        least=0,
        symbol="gamma",
        about="Length of a step: AdamW's first step moves each coordinate by it. Released: 5e-3 everywhere.",
    )
    steps: int = parameter(
        1,
        Range(1, np.inf, whole=True),
        about="How often the context is tuned for an image; each step costs a pass through the text encoder and back.",
    )
    view_fraction: float = share_of_views()

    def new_state(self, task: Task) -> StartText:
        """The text under the start context, encoded once for all images."""
        tower = self._tower(task)
        text = np.asarray(tower.features(tower.start), np.float32)
        if text.shape != task.text_prototypes.shape:
            raise TrimtabError(
                f"The task's text tower gives features of the shape {text.shape}, but its text prototypes have "
                f"{task.text_prototypes.shape}; make both with the same encoder and class names."
            )
        return StartText(text)

    def observe(self, image: Image, state: StartText) -> None:
        """Nothing is kept."""

    def predict(self, image: Image, state: StartText) -> dict[str, Array]:
        """The image under the text that was tuned for it."""
        return {"tuned": softmax(self.logits(image, state))}

    def logits(self, image: Image, state: StartText) -> Array:
        """(C,): the answer before its softmax."""
        task, views = image.block.task, image.block.views[image.row]
        *_, last = self.tuning(views, task, state)
        tuned = self._tower(task).features(last.context)
        return np.asarray(self.answer(views, np.float32(task.logit_scale) * (views @ tuned.T)), np.float32)

    def tuning(self, views: Array, task: Task, state: StartText) -> Iterator[TuningStep]:
        """The steps of the optimizer for one image, (V, d); the views that count are chosen before the first one."""
        tower, scale = self._tower(task), task.logit_scale
        context, text = tower.start, state.text
        kept = views[self.chosen(np.float32(scale) * (views @ text.T))]
        adam = AdamW(self.learning_rate)
        for stage in self.stages() * self.steps:
            loss, slopes = stage(kept, text, scale)
            gradient = tower.pullback(context, slopes)
            context = adam.step(context, gradient)
            yield TuningStep(text, loss, gradient, context)
            text = tower.features(context)  # not reached after the last step, unless somebody asks for more

    def stages(self) -> tuple[Stage, ...]:
        """What is minimized, one step of the optimizer each."""
        return (self.loss,)

    def loss(self, kept: Array, text: Array, scale: float) -> tuple[float, Array]:
        """The views' loss plus the text's own: the value and the slopes (C, d) at the text."""
        of_views, slopes = self.loss_of_views(kept, text, scale)
        own = self.text_loss(text)
        if own is None:
            return of_views, slopes
        return of_views + own[0], np.asarray(slopes + own[1], np.float32)

    def loss_of_views(self, kept: Array, text: Array, scale: float) -> tuple[float, Array]:
        """The views' loss alone."""
        loss, slopes = self.view_loss(np.float32(scale) * (kept @ text.T))
        return loss, np.asarray(np.float32(scale) * (slopes.T @ kept), np.float32)

    def chosen(self, logits: Array) -> NDArray[np.intp]:
        """The views that count, by their logits (V, C) under the start text: those of lowest entropy."""
        return most_confident(logits, self.view_fraction)

    def view_loss(self, logits: Array) -> ValueAndSlopes:
        """The loss of the chosen views' logits (K, C), and its slopes there: the entropy of their mean prediction."""
        return marginal_entropy(logits), entropy_slopes(logits)

    def text_loss(self, text: Array) -> ValueAndSlopes | None:  # noqa: ARG002
        """A loss of the text features (C, d) alone, and its slopes there; None: there is none.

        The place for a regularizer of the text: C-TPT's dispersion; O-TPT's and A-TPT's need only this, too.
        """
        return None

    def answer(self, views: Array, logits: Array) -> Array:  # noqa: ARG002
        """(C,): what the views' logits (V, C) under the tuned text say of the image; here, view 0's."""
        return logits[0]

    def operations(self, size: Size) -> float | None:
        """Every view against every text, and the text encoder: forward and back at each step, and forward once more.

        As the released programs do it. trimtab's own passes are shorter: they leave out the positions after the end of
        a text, share those before a name, and make the first one only once.
        """
        if size.text_pass is None:
            return None
        passes = 2 * self.steps * len(self.stages()) + 1
        return size.products(size.views, size.classes) + passes * size.text_pass

    def _tower(self, task: Task) -> TextTower:
        if task.text_tower is None:
            raise TrimtabError(
                f"{self.name} tunes the prompt through the text encoder, but this task carries no text tower; "
                "make the task with one, or choose a method that needs features only."
            )
        return task.text_tower


def most_confident(logits: Array, fraction: float) -> NDArray[np.intp]:
    """Which rows of (V, C) have the lowest entropy: int(V * fraction) as released, but at least one."""
    precise: Any = logits.astype(np.float64)
    entropies = entropy(softmax(precise))
    return np.argsort(entropies, kind="stable")[: max(1, int(len(logits) * fraction))]


def marginal_entropy(logits: Array) -> float:
    """H(mean of the rows' softmax), in nats."""
    precise: Any = logits.astype(np.float64)
    return float(entropy(softmax(precise).mean(axis=0)))
