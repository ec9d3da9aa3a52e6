"""DPE: text and visual prototypes that evolve together, with new residuals learned for every image.

Paper: Zhang, Stepputtis, Sycara, Xie, "Dual Prototype Evolving for Test-Time Generalization of Vision-Language Models",
NeurIPS 2024.

    t' = normalize(t + R_t),  v' = normalize(v + R_v)
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
is cached is the mean of the confident views, not normalized again.

No automatic differentiation. The text moves with every sure image, and with it all sums of the InfoNCE gradient: three
products of C x C x d. They are recomputed once a text has moved by `text_tolerance` in units of the temperature,
that is, before any softmax weight is off by that share (0: every time); in between only those of the written class
change (alignment.py).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.alignment import Alignment
from trimtab.engine.arrays import Array
from trimtab.engine.block import Image, Query
from trimtab.engine.equations import affinity, entropy, normalized_entropy, softmax
from trimtab.engine.moving_text import RunningText
from trimtab.engine.operations import Size
from trimtab.engine.parameters import choice, number, slots
from trimtab.engine.residuals import Terms, entropy_slopes, one_step, residual_gradients
from trimtab.engine.state import State
from trimtab.methods.base import CONFIDENT_MEAN, CacheMethod
from trimtab.methods.facts import CACHE, EVERYDAY, RENDITIONS, SPECIFIC_TEMPLATES, MethodInfo, Released, Templates
from trimtab.task import Task

# The released program's alpha and beta of A(x), learning rate and weight of the align loss, by data set.
RELEASED = {
    "imagenet": (6.0, 5.0, 6e-4, 0.5),
    "imagenet-a": (6.0, 5.0, 3e-4, 2.5),
    "imagenet-v2": (3.0, 8.0, 5e-4, 0.5),
    "imagenet-r": (3.0, 8.0, 6e-4, 0.0),
    "imagenet-sketch": (7.0, 7.45, 6e-4, 0.2),
    "caltech101": (15.0, 5.0, 6e-4, 0.2),
    "dtd": (6.0, 3.0, 6e-4, 0.2),
    "eurosat": (3.0, 8.0, 5e-5, 0.2),
    "fgvc-aircraft": (6.0, 2.0, 6e-4, 0.2),
    "food101": (3.0, 1.0, 2e-4, 0.2),
    "flowers102": (2.5, 5.0, 1e-4, 0.2),
    "oxford-pets": (4.0, 7.0, 5e-5, 0.2),
    "stanford-cars": (3.0, 7.0, 1e-4, 1.5),
    "sun397": (6.0, 3.0, 2e-4, 0.2),
    "ucf101": (9.0, 8.0, 4e-4, 0.2),
}


@dataclass
class DPEState(State):
    """The evolving text, and few features per class."""

    text: RunningText
    features: Array  # (C, positive_slots, d)
    scores: Array  # (C, positive_slots): entropies; infinite where a slot is empty
    sources: NDArray[np.int64]  # (C, positive_slots): position in the stream of the image in the slot, or -1
    means: Array  # (C, d): of each class's features; unit
    lengths: Array  # (C,): of the means before that; 0 for a class that holds nothing
    alignment: Alignment

    def positions(self) -> set[int]:
        """Positions in the stream of the images in the cache."""
        return set(self.sources[self.sources >= 0].tolist())


class Adapted(NamedTuple):
    """What one image's residuals lead to."""

    logits: Array  # (C,)
    moved_text: Array  # t', (C, d)


@dataclass(frozen=True, kw_only=True)
class DPE(CacheMethod):
    """Dual prototype evolving. Defaults are the released program's for ImageNet."""

    name: ClassVar[str] = "dpe"
    parts: ClassVar[tuple[str, ...]] = ("adapted",)
    info: ClassVar[MethodInfo] = MethodInfo(
        title="DPE",
        paper="Dual Prototype Evolving",
        year=2024,
        venue="NeurIPS",
        keeps="a cache, moving text",
        gradients=True,
        traits=CACHE | {"Multimodal"},
        look=("#009E73", "D", "-"),
    )
    released_values: ClassVar[Released] = {
        dataset: {
            "positive_alpha": alpha,
            "positive_beta": beta,
            "lr_text": rate,
            "lr_image": rate,
            "align_weight": align,
            "query": "confident_mean" if dataset == "imagenet-a" else "plain",
        }
        for dataset, (alpha, beta, rate, align) in RELEASED.items()
    }
    templates: ClassVar[Templates] = {
        **SPECIFIC_TEMPLATES,
        **dict.fromkeys(RENDITIONS, "imagenet80"),
        **dict.fromkeys(EVERYDAY, "imagenet7"),
        "stanford-cars": "car-colors",
    }

    positive_slots: int = slots(3, symbol="M", about="Items per class in the cache: those of lowest entropy.")
    positive_alpha: float = number(
        6.0, least=0, symbol="alpha", about="Strength of the visual prototypes. Released values: 2.5 to 15."
    )
    positive_beta: float = number(
        5.0, least=0, symbol="beta", about="Sharpness of A(x) = alpha exp(-beta (1 - x)). Released values: 1 to 8."
    )
    lr_text: float = number(6e-4, least=0, symbol="eta", about="Length of the text residuals' one AdamW step.")
    lr_image: float = number(6e-4, least=0, symbol="eta", about="Length of the visual residuals' one AdamW step.")
    align_weight: float = number(
        0.5, least=0, symbol="lambda", about="Weight of the InfoNCE loss that draws prototypes to their texts; 0: off."
    )
    temperature: float = number(
        0.01, least=1e-3, symbol="tau", about="Divides the matches in the InfoNCE loss; the released program's value."
    )
    adam_eps: float = number(
        1e-3,
        least=1e-12,
        symbol="epsilon of AdamW",
        about="Gradients far below it hardly move a prototype; the released program's value.",
    )
    evolve_threshold: float = number(
        0.1,
        least=0,
        symbol="tau_t",
        about="Entropy, in nats over log2 C, below which an image moves the text.",
    )
    text_tolerance: float = number(
        1e-3,
        least=0,
        about="How far a text may move, in temperatures, before all sums of the align loss are recomputed. 0 is "
        "exact and slower (docs/fidelity.md).",
    )
    query: Query = choice(
        "plain",
        ("plain", "confident_mean"),
        about="What the moved prototypes are asked about: the plain view, or the mean of the confident views (released "
        "on ImageNet-A).",
    )

    @property
    def query_of_block(self) -> Query:
        """The mean of the confident views stands for an image while the prototypes learn."""
        return CONFIDENT_MEAN

    def new_state(self, task: Task) -> DPEState:
        """The given text, and an empty cache."""
        return DPEState(
            text=RunningText(task.text_prototypes),
            features=np.zeros((task.classes, self.positive_slots, task.dim), np.float32),
            scores=np.full((task.classes, self.positive_slots), np.inf, np.float32),
            sources=np.full((task.classes, self.positive_slots), -1, np.int64),
            means=np.zeros((task.classes, task.dim), np.float32),
            lengths=np.zeros(task.classes, np.float32),
            alignment=Alignment(
                task.text_prototypes, self.temperature, one_sided=True, text_tolerance=self.text_tolerance
            ),
        )

    def moving_text(self, state: DPEState) -> RunningText:
        """The text evolves with every sure image."""
        return state.text

    def step(self, image: Image, state: DPEState) -> dict[str, Array]:
        """Offer the image to the cache, predict it, and let the text evolve if the prediction is sure."""
        return {"adapted": softmax(self.adapt(image, state))}

    def adapt(self, image: Image, state: DPEState) -> Array:
        """(C,): the logits of a step."""
        if self.writes_first:
            self._write(image, state)
        if self.align_weight:
            state.alignment.settle()
        adapted = self.adapted(image, state)
        if not self.writes_first:
            self._write(image, state)
        if normalized_entropy(float(entropy(softmax(adapted.logits))), len(adapted.logits)) < self.evolve_threshold:
            state.text.take_in(adapted.moved_text)
            if self.align_weight:
                state.alignment.move_text(state.text.units)
        return adapted.logits

    def observe(self, image: Image, state: DPEState) -> None:
        """A whole step: whether the text moves depends on the prediction."""
        self.adapt(image, state)

    def predict(self, image: Image, state: DPEState) -> dict[str, Array]:
        """One part: the softmax of the adapted logits."""
        return {"adapted": softmax(self.adapted(image, state).logits)}

    def _write(self, image: Image, state: DPEState) -> None:
        """Keep the image if there is room in its class, or in the place of the least certain one."""
        if self.positive_slots == 0:
            return
        label, score = image.label, np.float32(image.vote_entropy)
        slot = int(state.scores[label].argmax())
        if score >= state.scores[label, slot]:
            return
        state.features[label, slot], state.scores[label, slot] = image.feature, score
        state.sources[label, slot] = image.position
        mean = state.features[label][np.isfinite(state.scores[label])].mean(axis=0)
        length = np.sqrt(mean @ mean)
        state.lengths[label] = length
        state.means[label] = mean / length if length > 0 else 0
        if self.align_weight:
            state.alignment.write(label, state.means[label])

    def adapted(self, image: Image, state: DPEState) -> Adapted:
        """The image under the prototypes that one step has moved; nothing is written."""
        text, present = state.text, state.lengths > 0
        support = affinity(state.means @ image.feature, self.positive_alpha, self.positive_beta) * present
        slopes = entropy_slopes((image.logits + support)[None])
        scale, feature = image.logit_scale, image.feature[None]
        text_terms: Terms = state.alignment.text_terms(self.align_weight) if self.align_weight else []
        visual_terms: Terms = state.alignment.visual_terms(self.align_weight) if self.align_weight else []
        text_gradients = residual_gradients(text.units, text.lengths, scale * slopes, feature, text_terms)
        visual_slopes = np.float32(self.positive_beta) * slopes * support
        visual_gradients = residual_gradients(state.means, state.lengths, visual_slopes, feature, visual_terms)
        moved_text = one_step(text.units, text.lengths, text_gradients, self.lr_text, self.adam_eps)
        moved_visual = one_step(state.means, state.lengths, visual_gradients, self.lr_image, self.adam_eps)

        asked = image.plain if self.query == "plain" else image.feature
        support = affinity(moved_visual @ asked, self.positive_alpha, self.positive_beta) * present
        return Adapted(scale * (moved_text @ asked) + support, moved_text)

    def operations(self, size: Size) -> float:
        """Zero-shot of the views, visual prototypes, one step with its one-sided alignment, the moved prototypes."""
        step = 2 * size.products(1, size.classes) + size.products(1, size.classes * self.positive_slots)
        alignment = 3 * size.products(size.classes, size.classes) if self.align_weight else 0.0
        return size.products(size.views, size.classes) + step + alignment + 2 * size.products(1, size.classes)
