"""MCP++: MCP's caches, and residuals of the text and visual prototypes, learned from zero for every image.

Paper: as MCP (ICCV 2025), equations 6 to 10. After the caches are written:

    t'_c = normalize(t_c + R_t),  v'_c = normalize(v_c + R_v)                        Eq. 6
    L = L_entro + lambda L_align + gamma L_contrast                                  Eq. 10
    R = one AdamW step from 0 on L; predict with t', v'; forget R

| equation                       | as a number             | its gradient, in closed form                           |
|--------------------------------|-------------------------|--------------------------------------------------------|
| 6: moved prototypes            | `joint_loss.joint_loss` | `engine.residuals.one_step`, `residual_gradients`      |
| 7: L_entro, of confident views | `joint_loss.entropy_loss` | `MCPPlus.gradients`, `engine.residuals.entropy_slopes` |
| 8: L_align, both directions    | `joint_loss.align_loss` | `engine.alignment.Alignment`                           |
| 9: L_contrast                  | `joint_loss.contrast_loss` | `contrast_term`                                     |
| 10: joint loss                 | `joint_loss.joint_loss` | `loss_gradients`                                       |
| 1 to 5, the caches             | as in mcp.py            |                                                        |

No automatic differentiation: the three gradients have closed forms and the step is -lr g / (|g| + eps).

Where the released program differs we follow the paper (it stops with an error at its first confident image, so it
cannot be run as it is): its L_entro looks at the plain view only; its L_align is one-directional, at temperature 0.01,
and contrasts feature channels instead of classes; its L_contrast averages logarithms; it counts the prototype term
twice; and it moves the text along the stream (`evolve_text`). As in that program, the retrieval part asks the cached
features and the unmoved text.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.alignment import Alignment
from trimtab.engine.arrays import Array, Floats
from trimtab.engine.block import Block, Image
from trimtab.engine.equations import affinity, confident_views, entropy, normalized_entropy, softmax
from trimtab.engine.halves import TextHalves
from trimtab.engine.moving_text import RunningText
from trimtab.engine.operations import Size
from trimtab.engine.parameters import number, switch
from trimtab.engine.prototypes import Prototypes
from trimtab.engine.residuals import Terms, entropy_slopes, one_step, residual_gradients
from trimtab.engine.state import Nothing, State
from trimtab.engine.temper import TextTemper
from trimtab.engine.wide import WideBank
from trimtab.fusion.strength import PrototypeStrength
from trimtab.methods.facts import CACHE, MethodInfo, Released
from trimtab.methods.joint_loss import CONTRAST_FLOOR
from trimtab.methods.mcp_plus_step import SAME, Step
from trimtab.methods.mcp_plus_walk import follow, names_of, parts_for, prototyped_by, room_for, stretches, walk
from trimtab.methods.three_cache_method import PAPER_FORM, ThreeCacheMethod, released_affinity
from trimtab.methods.three_caches import ThreeCaches
from trimtab.methods.three_caches_walk import Figures, looks_of
from trimtab.task import Task

# The released program's learning rates, by data set.
LEARNING_RATES = {
    "imagenet": 6e-5,
    "imagenet-a": 3e-4,
    "imagenet-v2": 8e-5,
    "imagenet-r": 8e-5,
    "imagenet-sketch": 1e-4,
    "caltech101": 8e-5,
    "dtd": 6e-4,
    "eurosat": 4e-4,
    "fgvc-aircraft": 1e-4,
    "food101": 2e-4,
    "flowers102": 8e-4,
    "oxford-pets": 4e-4,
    "stanford-cars": 1e-4,
    "sun397": 3e-4,
    "ucf101": 8e-4,
}


@dataclass
class MCPPlusState(State):
    """How sharply the text speaks, MCP's caches, and the prototypes made of them."""

    temper: TextTemper | Nothing  # Nothing where the logit scale is the task's
    caches: ThreeCaches
    prototypes: Prototypes  # v_c, of the entropy and align caches
    negatives: Prototypes  # means of the negative cache
    alignment: Alignment  # the gradient of L_align
    text: RunningText  # moves only with `evolve_text`
    strength: PrototypeStrength  # unused where the prototype term is the paper's
    halves: TextHalves | Nothing  # Nothing where the logit scale is the task's


class Answer(NamedTuple):
    """What one image's residuals lead to."""

    parts: dict[str, Array]
    moved_text: Floats  # t', (C, d)


@dataclass(frozen=True, kw_only=True)
class MCPPlus(ThreeCacheMethod):
    """MCP with residual learning.

    The loss is the paper's; logit scale, prototype term and weights are found from the stream, as MCP's are, and the
    step is shorter. `MCPPlus.paper()` has the paper's own forms; eps is the released program's.
    """

    name: ClassVar[str] = "mcp_plus"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="MCP++",
        paper="Multi-Cache Enhanced Prototype Learning",
        year=2025,
        venue="ICCV",
        keeps="three caches",
        gradients=True,
        traits=CACHE | {"Multimodal", "HighEntro", "ExpTestDist"},
        look=("#CC79A7", "X", "-"),
    )
    paper_form: ClassVar[dict[str, Any]] = {**PAPER_FORM, "learning_rate": 1e-4}
    released_values: ClassVar[Released] = {
        dataset: {**released_affinity(dataset), "learning_rate": rate} for dataset, rate in LEARNING_RATES.items()
    }

    learning_rate: float = number(
        3e-5, least=0, symbol="lr", about="Length of the one AdamW step; 0 leaves MCP. The paper's form has 1e-4."
    )
    adam_eps: float = number(
        1e-3,
        least=1e-12,
        symbol="epsilon of AdamW",
        about="Gradients far below it hardly move a prototype; the released program's value.",
    )
    entropy_weight: float = number(1.0, least=0, about="Weight of L_entro, Eq. 7; 0 switches it off.")
    align_weight: float = number(
        0.5, least=0, symbol="lambda", about="Weight of L_align, Eq. 8, which draws texts and prototypes together."
    )
    contrast_weight: float = number(
        0.2, least=0, symbol="gamma", about="Weight of L_contrast, Eq. 9, which keeps prototypes off negative items."
    )
    temperature: float = number(
        1.0, least=1e-3, about="Divides the matches in L_align; the paper has none (1), the released program 0.01."
    )
    one_sided: bool = switch(
        False, about="Only the first direction of L_align, as in DPE and the released program; faster."
    )
    evolve_text: bool = switch(
        False, about="Keep a running mean of the moved texts of sure images, as the released program does."
    )
    evolve_threshold: float = number(
        0.1, least=0, about="Entropy, in nats over log2 C, below which an image is sure; only with evolve_text."
    )

    def new_state(self, task: Task) -> MCPPlusState:
        """Empty caches, no prototypes yet."""
        caches = ThreeCaches.empty(self, task)
        bank = caches.bank
        return MCPPlusState(
            temper=self.new_temper(task),
            caches=caches,
            prototypes=Prototypes(bank, slice(1, bank.sections["align"].stop)),
            negatives=Prototypes(bank, bank.sections["negative"]),
            alignment=Alignment(task.text_prototypes, self.temperature, one_sided=self.one_sided),
            text=RunningText(task.text_prototypes),
            strength=PrototypeStrength(),
            halves=self.new_halves(task),
        )

    def items_left(self, state: MCPPlusState) -> None:
        """The prototypes have followed the bank; the align loss has to follow the prototypes."""
        state.alignment.replace_all(state.prototypes.units, state.prototypes.lengths > 0)

    def moving_text(self, state: MCPPlusState) -> RunningText | None:
        """The text moves only in the released program's form."""
        return state.text if self.evolve_text else None

    def step(self, image: Image, state: MCPPlusState) -> dict[str, Array]:
        """Write the caches and predict; a sure prediction moves the text, if it may move."""
        if self.writes_first:
            self._write(image, state)
        if self.align_weight:
            state.alignment.settle()
        answer = self._answer(image, state)
        if not self.writes_first:
            self._write(image, state)
        if self.evolve_text:
            self._evolve(answer, state)
        if isinstance(state.halves, TextHalves):
            state.halves.take_in(image, answer.parts["retrieval"])
        return answer.parts

    def walk(self, block: Block, state: MCPPlusState, learned: NDArray[np.bool_]) -> dict[str, Array] | None:
        """A block of single views at once, in a compiled loop that stops where the align loss has to follow."""
        wide, views = isinstance(state.caches.bank, WideBank), block.views.shape[1]
        if wide or views > 1 or self.evolve_text or not self.writes_first:
            return None
        state.open(block)
        figures = Figures(state.caches.clarity.figures, state.strength.figures, *self.speech)
        prototyped = prototyped_by(state.text, state.prototypes, state.negatives, state.alignment)
        room, parts = room_for(block), parts_for(block)
        fixed = looks_of(block), self.rules, figures, names_of(block), prototyped, self._one_step, room, *parts
        settles = self.align_weight > 0
        for first, last in stretches(learned):
            put_back = None if learned[first] else state.hold()  # the loop takes back what it has put into the bank
            follow(room, state.prototypes, state.alignment, settles=settles)
            while first < last:
                first = state.caches.bank.walk(walk, learned, *fixed, first, last)
                follow(room, state.prototypes, state.alignment, settles=settles)
            if put_back is not None:
                put_back()
        if isinstance(state.halves, TextHalves):
            state.halves.learn(block, slice(0, len(block)), parts[-1], learned)
        return dict(zip(self.parts, parts, strict=True))

    @cached_property
    def _one_step(self) -> Step:
        """The joint loss's weights and the step, as compiled loops take them."""
        weights = np.float32(self.entropy_weight), self.align_weight / self.temperature, float(self.contrast_weight)
        return Step(*weights, self.one_sided, np.float32(self.learning_rate), np.float32(self.adam_eps))

    def observe(self, image: Image, state: MCPPlusState) -> None:
        """Write the caches; what may move the text needs the prediction too."""
        if self.evolve_text:
            self.step(image, state)
        else:
            self._write(image, state)

    def predict(self, image: Image, state: MCPPlusState) -> dict[str, Array]:
        """MCP's three parts, from prototypes that one step for this image has moved."""
        return self._answer(image, state).parts

    def _write(self, image: Image, state: MCPPlusState) -> None:
        """Write the caches and renew the prototypes of the classes that changed."""
        state.caches.write(image, self)
        for label in state.prototypes.renew():
            state.alignment.write(label, state.prototypes.units[label])
        state.negatives.renew()
        if isinstance(state.temper, TextTemper):
            state.temper.take_in(image)
        if self.prototype_term == "matched":
            state.strength.learn(image, state.caches.visual.at(image), state.prototypes.lengths > 0)

    def _evolve(self, answer: Answer, state: MCPPlusState) -> None:
        probabilities = answer.parts["prototype"]
        if normalized_entropy(float(entropy(probabilities)), len(probabilities)) < self.evolve_threshold:
            state.text.take_in(answer.moved_text)
            state.alignment.move_text(state.text.units)

    def _answer(self, image: Image, state: MCPPlusState) -> Answer:
        """The parts of the prediction, and the text that the step has moved."""
        text, prototypes, caches = state.text.units, state.prototypes, state.caches
        text_gradients, visual_gradients = self.gradients(image, state)
        rate, eps = self.learning_rate, self.adam_eps
        moved_text = one_step(text, _ones(text), text_gradients, rate, eps)  # Eq. 6, left
        moved_visual = one_step(prototypes.units, prototypes.lengths, visual_gradients, rate, eps)  # Eq. 6, right
        scale, block = image.logit_scale, image.block
        support = self._prototype_term(moved_visual @ image.feature, state)
        logits = scale * block.leveled(moved_text @ image.feature) + support - caches.penalties.at(image)
        voters = block.kept_features[image.row]
        prototype, retrieval = softmax(logits), softmax(scale * caches.retrieved.at(image))  # Eq. 4, Eq. 3
        parts = softmax(scale * block.leveled(voters @ moved_text.T)).mean(axis=0), prototype, retrieval
        named = zip(self.parts, parts, strict=True)
        return Answer({name: np.asarray(part, np.float32) for name, part in named}, moved_text)

    def gradients(self, image: Image, state: MCPPlusState) -> tuple[Floats, Floats]:
        """(C, d) each: the gradient of the joint loss at the residuals of the text and of the visual prototypes."""
        views = image.block.views[image.row]
        support = self._support(views, image, state)
        logits = image.block.view_logits[image.row] + support - self._against(views, image, state)
        one_view = len(views) == 1
        kept = np.zeros(1, np.intp) if one_view else confident_views(entropy(softmax(logits)), self.view_fraction)
        slopes = np.float32(self.entropy_weight) * entropy_slopes(logits[kept])  # Eq. 7
        text_slopes = image.logit_scale * image.block.slopes_before_leveling(slopes)
        visual_slopes = slopes * self._prototype_slopes(support[kept], state)
        weights = self.align_weight, self.contrast_weight
        return loss_gradients(state, views[kept], text_slopes, visual_slopes, *weights)

    def _support(self, views: Array, image: Image, state: MCPPlusState) -> Array:
        """(V, C): what the unit prototypes say of each view."""
        # Of a single view the bank already knows <f, v_c>.
        likeness = _plain_cosines(image, state)[None] if len(views) == 1 else views @ state.prototypes.units.T
        return self._prototype_term(likeness, state)

    def _prototype_term(self, cosines: Array, state: MCPPlusState) -> Array:
        """What is added to the text's logits, from the cosines (..., C) with unit prototypes.

        Matched prototypes speak as MCP's do, which are means: where items lie apart, shorter and less loud.
        """
        lengths = state.prototypes.lengths
        holds_items = lengths > 0
        if self.prototype_term == "matched":
            return state.strength.support(lengths * cosines, holds_items)
        return affinity(cosines, *self.affinity) * holds_items  # Eq. 4, first term: A(<f, v_c>)

    def _prototype_slopes(self, support: Array, state: MCPPlusState) -> Array:
        """(..., C): how fast the prototype term grows with the cosine; 0 for classes without items."""
        if self.prototype_term == "matched":
            slope = np.float32(state.strength.slope(support.shape[-1]))
            return np.broadcast_to(slope * state.prototypes.lengths, support.shape)
        return np.float32(self.affinity[1]) * support  # A' = beta A

    def _against(self, views: Array, image: Image, state: MCPPlusState) -> Array:
        """(V, C): what the negative cache says against each class."""
        penalties = state.caches.penalties
        return penalties.at(image)[None] if len(views) == 1 else penalties.of(views)

    def operations(self, size: Size) -> float:
        """MCP's, and one step: entropy over the views (forward), its gradients (backward), both sides of L_align."""
        forward = size.products(size.views, size.classes * (1 + self.negative_slots))
        backward = 2 * size.products(size.kept, size.classes)
        alignment = 3 * size.products(size.classes, size.classes) if self.align_weight else 0.0
        moved = size.products(size.kept + 2, size.classes)
        return super().operations(size) + forward + backward + alignment + moved


def loss_gradients(
    state: MCPPlusState,
    features: Floats,
    text_slopes: Floats,
    visual_slopes: Floats,
    align_weight: float,
    contrast_weight: float,
) -> tuple[Floats, Floats]:
    """The gradients of the joint loss at the residuals; the entropy enters by its slopes along the kept views."""
    text, prototypes = state.text.units, state.prototypes
    text_terms: Terms = state.alignment.text_terms(align_weight) if align_weight else []  # Eq. 8
    visual_terms: Terms = state.alignment.visual_terms(align_weight) if align_weight else []  # Eq. 8
    if contrast_weight:
        visual_terms = [*visual_terms, contrast_term(prototypes, state.negatives, contrast_weight)]
    return (
        residual_gradients(text, _ones(text), text_slopes, features, text_terms),  # Eq. 10, at R_t
        residual_gradients(prototypes.units, prototypes.lengths, visual_slopes, features, visual_terms),  # at R_v
    )


def contrast_term(prototypes: Prototypes, negatives: Prototypes, weight: float) -> tuple[Floats, Floats]:
    """The gradient of -log(1 - mean_c cos(v_c, n_c) + floor) at the unit prototypes, n_c the negative means."""
    both = (prototypes.lengths > 0) & (negatives.lengths > 0)
    count = max(int(both.sum()), 1)
    cosines = np.einsum("cd,cd->c", prototypes.units[both], negatives.units[both])
    slope = weight / (count * (1 - float(cosines.sum()) / count + CONTRAST_FLOOR))  # Eq. 9
    pulls = both.copy()
    pulls[both] = cosines < SAME
    return (slope * pulls).astype(prototypes.units.dtype), negatives.units


def _plain_cosines(image: Image, state: MCPPlusState) -> Array:
    """(C,): the plain view's cosines with the visual prototypes, 0 for classes without items."""
    lengths = state.prototypes.lengths
    visual = state.caches.visual.at(image)
    return np.divide(visual, lengths, where=lengths > 0, out=np.zeros_like(lengths))


def _ones(text: Floats) -> Floats:
    """The lengths of the text prototypes: residuals are added to unit vectors."""
    return np.ones(len(text), text.dtype)
