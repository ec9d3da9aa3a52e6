"""DPE: text and visual prototypes that evolve together, with residuals learned anew for every image.

Paper: Zhang, Stepputtis, Sycara, Xie, "Dual Prototype Evolving for Test-Time Generalization of Vision-Language Models",
NeurIPS 2024.

    t' = normalise(t + R_t),  v' = normalise(v + R_v)
    L = H(softmax(s f t' + A(f v'))) + lambda InfoNCE(v' -> t')
    R = one AdamW step from 0 on L; predict the plain view with t', v'
    if that prediction is sure:  t <- running mean of t'

| paper            | here                                                                                        |
|------------------|---------------------------------------------------------------------------------------------|
| t (evolving)     | `RunningText`: mean of the moved texts of sure images; the given text counts once           |
| v                | mean of a class's cached features; the cache keeps the lowest entropies, as in TDA           |
| A(x)             | alpha exp(-beta (1 - x))                                                                     |
| lambda, tau_t    | `align_weight`, `evolve_threshold` (in nats over log2 C)                                     |

As in the released program, which differs from the paper: the InfoNCE loss has one direction, over the classes present,
at temperature 0.01; the entropy is that of the mean logits of the confident views, not of their mean probability; what
is cached is the mean of the confident views, not normalised again.

No automatic differentiation. The text moves with every sure image, and with it all sums of the InfoNCE gradient: three
products of C x C x d. They are computed afresh once a text has moved by `text_tolerance` in units of the temperature,
that is, before any softmax weight is off by that share (0: every time); in between only those of the written class
change (alignment.py).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.engine.alignment import Alignment
from trimtab.engine.block import Block, Image, Query
from trimtab.engine.equations import Array, affinity, entropy, normalised_entropy, softmax
from trimtab.engine.moving_text import LastAnswer, RunningText
from trimtab.engine.parameters import choice, number, slots
from trimtab.engine.residuals import Terms, entropy_slopes, one_step, residual_gradients
from trimtab.engine.state import State
from trimtab.methods.base import CacheMethod
from trimtab.task import Task


@dataclass
class DPEState(State):
    """The evolving text, and few features per class."""

    text: RunningText
    features: Array  # (C, positive_slots, d)
    scores: Array  # (C, positive_slots): entropies; infinite where a slot is empty
    means: Array  # (C, d): of each class's features; unit
    lengths: Array  # (C,): of the means before that; 0 for a class that holds nothing
    alignment: Alignment
    answers: LastAnswer[tuple[Array, Array]]  # logits, and the moved text


@dataclass(frozen=True, kw_only=True)
class DPE(CacheMethod):
    """Dual prototype evolving. Defaults are the released program's for ImageNet."""

    name: ClassVar[str] = "dpe"
    parts: ClassVar[tuple[str, ...]] = ("adapted",)

    positive_slots: int = slots(3)
    positive_alpha: float = number(6.0, least=0)
    positive_beta: float = number(5.0, least=0)
    lr_text: float = number(6e-4, least=0)
    lr_image: float = number(6e-4, least=0)
    align_weight: float = number(0.5, least=0)
    temperature: float = number(0.01, least=1e-3)
    adam_eps: float = number(1e-3, least=1e-12)
    evolve_threshold: float = number(0.1, least=0)
    text_tolerance: float = number(1e-3, least=0)
    query: Query = choice("plain", ("plain", "confident_mean"))

    def look(self, task: Task, views: Array, first: int) -> Block:
        """A block of images; the mean of its confident views stands for an image while the prototypes learn."""
        return Block(task, views, first, self.view_fraction, "confident_mean")

    def new_state(self, task: Task) -> DPEState:
        """The given text, and an empty cache."""
        return DPEState(
            text=RunningText(task.text_prototypes),
            features=np.zeros((task.classes, self.positive_slots, task.dim), np.float32),
            scores=np.full((task.classes, self.positive_slots), np.inf, np.float32),
            means=np.zeros((task.classes, task.dim), np.float32),
            lengths=np.zeros(task.classes, np.float32),
            alignment=Alignment(
                task.text_prototypes, self.temperature, one_sided=True, text_tolerance=self.text_tolerance
            ),
            answers=LastAnswer(),
        )

    def observe(self, image: Image, state: DPEState) -> None:
        """Offer the image to the cache, and let the text evolve if the prediction is sure."""
        seen = state.text.seen_by(image)
        if self.writes_first:
            self._write(seen, state)
            logits, moved = state.answers.keep(image, self._answer(seen, state))
        else:
            logits, moved = state.answers.recall(image) or self._answer(seen, state)
            self._write(seen, state)
        if normalised_entropy(float(entropy(softmax(logits))), len(logits)) < self.evolve_threshold:
            state.text.take_in(moved)
            if self.align_weight:
                state.alignment.move_text(state.text.units)

    def predict(self, image: Image, state: DPEState) -> dict[str, Array]:
        """One part: the softmax of the adapted logits."""
        return {"adapted": softmax(self.logits(image, state))}

    def logits(self, image: Image, state: DPEState) -> Array:
        """(C,): the image under the prototypes that one step has moved."""
        known = state.answers.recall(image)
        return (known or state.answers.keep(image, self._answer(state.text.seen_by(image), state)))[0]

    def _write(self, image: Image, state: DPEState) -> None:
        """Keep the image if there is room in its class, or in the place of the least certain one."""
        if self.positive_slots == 0:
            return
        label, score = image.label, np.float32(image.vote_entropy)
        slot = int(state.scores[label].argmax())
        if score >= state.scores[label, slot]:
            return
        state.features[label, slot], state.scores[label, slot] = image.feature, score
        mean = state.features[label][np.isfinite(state.scores[label])].mean(axis=0)
        length = np.sqrt(mean @ mean)
        state.lengths[label] = length
        state.means[label] = mean / length if length > 0 else 0
        if self.align_weight:
            state.alignment.write(label, state.means[label])

    def _answer(self, image: Image, state: DPEState) -> tuple[Array, Array]:
        """The final logits, and the text that the step has moved."""
        text, present = state.text, state.lengths > 0
        support = affinity(state.means @ image.feature, self.positive_alpha, self.positive_beta) * present
        slopes = entropy_slopes((image.logits + support)[None])
        scale, feature = np.float32(image.block.task.logit_scale), image.feature[None]
        text_terms: Terms = state.alignment.text_terms(self.align_weight) if self.align_weight else []
        visual_terms: Terms = state.alignment.visual_terms(self.align_weight) if self.align_weight else []
        text_gradients = residual_gradients(text.units, text.lengths, scale * slopes, feature, text_terms)
        visual_slopes = np.float32(self.positive_beta) * slopes * support
        visual_gradients = residual_gradients(state.means, state.lengths, visual_slopes, feature, visual_terms)
        moved_text = one_step(text.units, text.lengths, text_gradients, self.lr_text, self.adam_eps)
        moved_visual = one_step(state.means, state.lengths, visual_gradients, self.lr_image, self.adam_eps)

        asked = image.plain if self.query == "plain" else image.feature
        support = affinity(moved_visual @ asked, self.positive_alpha, self.positive_beta) * present
        return scale * (moved_text @ asked) + support, moved_text
