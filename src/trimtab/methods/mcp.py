"""MCP: three caches, two kinds of prototype, three parts of a prediction.

Paper: Chen, Zhai, Zhang, Shi, Li, "Multi-Cache Enhanced Prototype Learning for Test-Time Generalization of
Vision-Language Models", ICCV 2025. Equation numbers are the paper's order of appearance.

| equation                          | function                                                         |
|-----------------------------------|------------------------------------------------------------------|
| 1: softmax of similarities        | `engine.equations.softmax`, `engine.block.Block.view_logits`     |
| 2: center mu_c = w v_c + (1-w) t_c | `three_caches.ThreeCaches._with_center`                         |
| A(x), below Eq. 3                 | `engine.equations.affinity`                                      |
| 3: retrieved r_c, softmax s f r_c | `engine.lanes.retrieval_cosines`, `MCP.predict`                  |
| 4: prototype term                 | `MCP.predict`, `MCP._prototype_term`                             |
| 5: fusion of the three parts      | `fusion.weights.FixedWeights.combine`                            |
| caches and reflecting mechanism   | three_caches.py, with a table of its own                         |

What the authors set per data set or search on the test labels has a default that needs neither, found from the stream
(docs/weights-without-labels.md): `text_scale` is "stream", `prototype_term` "matched", `fusion` "auto". So `MCP()` is
NOT the paper's exact form; `MCP.paper()` is, and `MCP.paper(dataset)` with the authors' values for a data set.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image
from trimtab.engine.equations import affinity
from trimtab.engine.halves import TextHalves
from trimtab.engine.state import Nothing, State
from trimtab.engine.temper import TextTemper
from trimtab.engine.wide import WideBank
from trimtab.engine.wide_readouts import WideMeanProducts, WideNegativePenalties
from trimtab.fusion.strength import PrototypeStrength
from trimtab.methods.facts import CACHE, MethodInfo, Released
from trimtab.methods.three_cache_method import AFFINITIES, ThreeCacheMethod, released_affinity
from trimtab.methods.three_caches import ThreeCaches
from trimtab.methods.three_caches_walk import Figures, looks_of, prototype_and_retrieval, walk
from trimtab.task import Task


@dataclass
class MCPState(State):
    """How sharply the text speaks, the caches, and how strongly their prototypes should speak."""

    temper: TextTemper | Nothing  # Nothing where the logit scale is the task's
    caches: ThreeCaches
    strength: PrototypeStrength  # unused where the prototype term is the paper's
    halves: TextHalves | Nothing  # Nothing where the logit scale is the task's


@dataclass(frozen=True, kw_only=True)
class MCP(ThreeCacheMethod):
    """Multi-cache enhanced prototypes.

    Cache sizes and thresholds are the paper's; the prototype term and the weights are found from the unlabeled stream.
    `MCP.paper()` has the paper's own forms of both.
    """

    name: ClassVar[str] = "mcp"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="MCP",
        paper="Multi-Cache Enhanced Prototype Learning",
        year=2025,
        venue="ICCV",
        keeps="three caches",
        traits=CACHE | {"HighEntro", "ExpTestDist"},
        look=("#D55E00", "P", "-"),
    )
    released_values: ClassVar[Released] = {dataset: released_affinity(dataset) for dataset in AFFINITIES}

    def new_state(self, task: Task) -> MCPState:
        """Empty caches beside the text prototypes."""
        caches = ThreeCaches.empty(self, task)
        return MCPState(self.new_temper(task), caches, PrototypeStrength(), self.new_halves(task))

    def step(self, image: Image, state: MCPState) -> dict[str, Array]:
        """Take in the image and predict it; then it tells how sure answers should be."""
        parts = super().step(image, state)
        if isinstance(state.halves, TextHalves):
            state.halves.take_in(image, parts["retrieval"])
        return parts

    def observe(self, image: Image, state: MCPState) -> None:
        """Offer the image to the caches."""
        caches = state.caches
        caches.write(image, self)
        if isinstance(state.temper, TextTemper):
            state.temper.take_in(image)
        if self.prototype_term == "matched":
            state.strength.learn(image, caches.visual.at(image), caches.visual.present)

    def predict(self, image: Image, state: MCPState) -> dict[str, Array]:
        """The three parts: what the text says, what the prototypes say, what the retrieved items say."""
        caches = state.caches
        prototype, retrieval = prototype_and_retrieval(
            image.logits[None],
            (self._prototype_term(image, state) - caches.penalties.at(image))[None],
            np.array([image.logit_scale], np.float32),
            caches.retrieved.at(image)[None],
        )
        return {"text": image.vote, "prototype": prototype[0], "retrieval": retrieval[0]}

    def walk(self, block: Block, state: MCPState, learned: NDArray[np.bool_]) -> dict[str, Array] | None:
        """A block at once."""
        wide = isinstance(state.caches.bank, WideBank)
        if not self.writes_first or (wide and not learned.all()):
            return None
        state.open(block)
        parts = self._walk_wide(block, state) if wide else self._walk_compiled(block, state, learned)
        if isinstance(state.halves, TextHalves):
            state.halves.learn(block, slice(0, len(block)), parts["retrieval"], learned)
        return parts

    def _walk_compiled(self, block: Block, state: MCPState, learned: NDArray[np.bool_]) -> dict[str, Array]:
        """One compiled loop over the images."""
        caches = state.caches
        prototype, retrieval = np.empty_like(block.logits), np.empty_like(block.logits)
        figures = Figures(caches.clarity.figures, state.strength.figures, *self.speech)
        caches.bank.walk(walk, learned, looks_of(block), self.rules, figures, prototype, retrieval)
        return {"text": block.vote, "prototype": prototype, "retrieval": retrieval}

    def _walk_wide(self, block: Block, state: MCPState) -> dict[str, Array]:
        """Where slots come and go, images are written one by one; the parts of the block are still made at once."""
        caches = state.caches
        assert isinstance(caches.visual, WideMeanProducts)
        assert isinstance(caches.penalties, WideNegativePenalties)
        for image in block:
            caches.write(image, self)
        cosines, since = caches.visual.of_block(), caches.visual.since
        if self.prototype_term == "matched":
            term = state.strength.walk(block.probabilities, block.logits, cosines, since)
        else:
            holds_items = since <= np.arange(len(block))[:, None]
            term = affinity(cosines, *self.affinity) * holds_items  # Eq. 4, first term: A(<f, v_c>)
        caches.penalties.take_off(term)
        retrieved = caches.retrieved.of_block()
        prototype, retrieval = prototype_and_retrieval(block.logits, term, block.logit_scales, retrieved)
        return {"text": block.vote, "prototype": prototype, "retrieval": retrieval}

    def _prototype_term(self, image: Image, state: MCPState) -> Array:
        """(C,): what the visual prototypes add to the text's logits."""
        cosines, holds_items = state.caches.visual.at(image), state.caches.visual.present
        if self.prototype_term == "matched":
            return state.strength.support(cosines, holds_items)
        return affinity(cosines, *self.affinity) * holds_items  # Eq. 4, first term: A(<f, v_c>)
