"""MCP++: MCP's caches, and residuals of the text and visual prototypes learned anew for every image.

Paper: as MCP (ICCV 2025), equations 6 to 10. After the caches are written:

    t'_c = normalise(t_c + R_t),  v'_c = normalise(v_c + R_v)                        Eq. 6
    L = L_entro + lambda L_align + gamma L_contrast                                  Eq. 10
    R = one AdamW step from 0 on L; predict with t', v'; forget R

| paper            | here                                                                                        |
|------------------|---------------------------------------------------------------------------------------------|
| L_entro (Eq. 7)  | entropy of the confident views' mean prediction, each from text, prototypes and negatives   |
| L_align (Eq. 8)  | both directions of InfoNCE between t' and v' over the classes that hold items (alignment.py) |
| L_contrast (9)   | -log(1 - mean cosine of v' and the class's negative items), over the classes that have both  |
| lambda, gamma    | `align_weight`, `contrast_weight`; a weight of 0 switches a loss off                         |

No automatic differentiation: the three gradients have closed forms and the step is -lr g / (|g| + eps).

Where the released program differs we follow the paper (it stops with an error at its first confident image, so it
cannot be run as it is): its L_entro looks at the plain view only; its L_align is one-directional, at temperature 0.01,
and contrasts feature channels instead of classes; its L_contrast averages logarithms; it counts the prototype term
twice; and it moves the text along the stream (`evolve_text`). As in that program, the retrieval part asks the cached
features and the unmoved text.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trimtab.engine.alignment import Alignment
from trimtab.engine.block import Image
from trimtab.engine.equations import Array, affinity, confident_views, entropy, normalised_entropy, softmax
from trimtab.engine.moving_text import LastAnswer, RunningText
from trimtab.engine.parameters import number, switch
from trimtab.engine.prototypes import Prototypes
from trimtab.engine.residuals import Floats, Terms, entropy_slopes, one_step, residual_gradients
from trimtab.methods.mcp import MCP, MCPState
from trimtab.task import Task

CONTRAST_FLOOR = 1e-7  # the paper's epsilon inside the logarithm of Eq. 9


@dataclass
class MCPPlusState(MCPState):
    """MCP's caches, and the prototypes made of them."""

    prototypes: Prototypes  # v_c, of the entropy and align caches
    negatives: Prototypes  # means of the negative cache
    alignment: Alignment  # the gradient of L_align
    text: RunningText  # moves only with `evolve_text`
    answers: LastAnswer[tuple[dict[str, Array], Array]]  # the parts, and the moved text


@dataclass(frozen=True, kw_only=True)
class MCPPlus(MCP):
    """MCP with residual learning. Defaults are the paper's; eps is the released program's."""

    name: ClassVar[str] = "mcp_plus"

    positive_alpha: float = number(3.0, least=0)  # the residuals need a fixed one; the middle of the authors' values
    learning_rate: float = number(1e-4, least=0)
    adam_eps: float = number(1e-3, least=1e-12)
    entropy_weight: float = number(1.0, least=0)
    align_weight: float = number(0.5, least=0)
    contrast_weight: float = number(0.2, least=0)
    temperature: float = number(1.0, least=1e-3)
    one_sided: bool = switch(False)
    evolve_text: bool = switch(False)
    evolve_threshold: float = number(0.1, least=0)

    def new_state(self, task: Task) -> MCPPlusState:
        """Empty caches, no prototypes yet."""
        caches = super().new_state(task)
        bank = caches.bank
        return MCPPlusState(
            **vars(caches),
            prototypes=Prototypes(bank, slice(1, bank.sections["align"].stop)),
            negatives=Prototypes(bank, bank.sections["negative"]),
            alignment=Alignment(task.text_prototypes, self.temperature, one_sided=self.one_sided),
            text=RunningText(task.text_prototypes),
            answers=LastAnswer(),
        )

    def observe(self, image: Image, state: MCPPlusState) -> None:  # type: ignore[override]
        """Write the caches and renew the prototypes of the classes that changed."""
        if not self.evolve_text:
            self._write(image, state)
            return
        seen = self._see_again(image, state)
        if self.writes_first:
            self._write(seen, state)
            parts, moved = state.answers.keep(image, self._answer(seen, state))
        else:
            parts, moved = state.answers.recall(image) or self._answer(seen, state)
            self._write(seen, state)
        if normalised_entropy(float(entropy(parts["prototype"])), len(seen.logits)) < self.evolve_threshold:
            state.text.take_in(moved)
            state.alignment.move_text(state.text.units)

    def predict(self, image: Image, state: MCPPlusState) -> dict[str, Array]:  # type: ignore[override]
        """MCP's three parts, from prototypes that one step for this image has moved."""
        if not self.evolve_text:
            return self._answer(image, state)[0]
        known = state.answers.recall(image)
        return (known or state.answers.keep(image, self._answer(self._see_again(image, state), state)))[0]

    def _write(self, image: Image, state: MCPPlusState) -> None:
        super().observe(image, state)
        for label in state.prototypes.renew():
            state.alignment.write(label, state.prototypes.units[label])
        state.negatives.renew()

    def _see_again(self, image: Image, state: MCPPlusState) -> Image:
        """The image under the text as it has become."""
        seen = state.text.seen_by(image)
        state.bank.open(seen.block)
        return seen

    def _answer(self, image: Image, state: MCPPlusState) -> tuple[dict[str, Array], Array]:
        """The parts of the prediction, and the text that the step has moved."""
        text, prototypes = state.text.units, state.prototypes
        text_gradients, visual_gradients = self.gradients(image, state)
        moved_text = one_step(text, _ones(text), text_gradients, self.learning_rate, self.adam_eps)
        moved_visual = one_step(
            prototypes.units, prototypes.lengths, visual_gradients, self.learning_rate, self.adam_eps
        )
        scale = np.float32(image.block.task.logit_scale)
        present = prototypes.lengths > 0
        support = affinity(moved_visual @ image.feature, self.positive_alpha, self.positive_beta) * present
        voters = image.block.kept_features[image.row]
        parts = {
            "text": softmax(scale * (voters @ moved_text.T)).mean(axis=0),
            "prototype": softmax(scale * (moved_text @ image.feature) + support - state.penalties.at(image)),  # Eq. 4
            "retrieval": softmax(scale * state.retrieved.at(image)),  # Eq. 3
        }
        return {name: np.asarray(part, np.float32) for name, part in parts.items()}, moved_text

    def gradients(self, image: Image, state: MCPPlusState) -> tuple[Floats, Floats]:
        """(C, d) each: the gradient of the joint loss at the residuals of the text and of the visual prototypes."""
        views = image.block.views[image.row]
        support = self._support(views, image, state)
        logits = image.block.view_logits[image.row] + support - self._against(views, image, state)
        kept = confident_views(entropy(softmax(logits)), self.view_fraction)
        slopes = np.float32(self.entropy_weight) * entropy_slopes(logits[kept])
        return loss_gradients(
            state,
            views[kept],
            np.float32(image.block.task.logit_scale) * slopes,
            np.float32(self.positive_beta) * slopes * support[kept],
            self.align_weight,
            self.contrast_weight,
        )

    def _support(self, views: Array, image: Image, state: MCPPlusState) -> Array:
        """(V, C): A(f_n v_c) with the unit prototypes."""
        lengths = state.prototypes.lengths
        if len(views) == 1:  # the bank already knows <f, v_c>
            likeness = np.divide(state.visual.at(image), lengths, where=lengths > 0, out=np.zeros_like(lengths))[None]
        else:
            likeness = views @ state.prototypes.units.T
        return affinity(likeness, self.positive_alpha, self.positive_beta) * (lengths > 0)

    def _against(self, views: Array, image: Image, state: MCPPlusState) -> Array:
        """(V, C): what the negative cache says against each class."""
        return state.penalties.at(image)[None] if len(views) == 1 else state.penalties.of(views)


def loss_gradients(
    state: MCPPlusState,
    features: Floats,
    text_slopes: Floats,
    visual_slopes: Floats,
    align_weight: float,
    contrast_weight: float,
) -> tuple[Floats, Floats]:
    """The gradients of Eq. 10 at the residuals; the entropy enters by its slopes along the kept views. # Eq. 10"""
    text, prototypes = state.text.units, state.prototypes
    text_terms: Terms = state.alignment.text_terms(align_weight) if align_weight else []
    visual_terms: Terms = state.alignment.visual_terms(align_weight) if align_weight else []
    if contrast_weight:
        visual_terms = [*visual_terms, contrast_term(prototypes, state.negatives, contrast_weight)]
    return (
        residual_gradients(text, _ones(text), text_slopes, features, text_terms),
        residual_gradients(prototypes.units, prototypes.lengths, visual_slopes, features, visual_terms),
    )


def contrast_term(prototypes: Prototypes, negatives: Prototypes, weight: float) -> tuple[Floats, Floats]:
    """The gradient of -log(1 - mean_c cos(v_c, n_c) + floor) at the unit prototypes, n_c the negative means. # Eq. 9"""
    both = (prototypes.lengths > 0) & (negatives.lengths > 0)
    count = max(int(both.sum()), 1)
    cosines = np.einsum("cd,cd->c", prototypes.units[both], negatives.units[both])
    slope = weight / (count * (1 - float(cosines.sum()) / count + CONTRAST_FLOOR))
    return (slope * both).astype(prototypes.units.dtype), negatives.units


def _ones(text: Floats) -> Floats:
    """The lengths of the text prototypes: residuals are added to unit vectors."""
    return np.ones(len(text), text.dtype)
