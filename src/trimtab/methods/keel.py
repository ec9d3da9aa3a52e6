"""Keel: MCP's caches, steadied by a whitened memory of the stream. trimtab's own method; no paper has it.

MCP (ICCV 2025) keeps the surest images of each class and compares an image with them in the encoder's own geometry,
where what all images share drowns what tells them apart. Keel remembers the last images, whatever they show, whitens
the features by their covariance, and finds the classes' means there by a few rounds of posteriors and means that start
from the text each time (engine/whitening.py). docs/keel.md has the equations, the figures and where it loses.

    log p = MCP's three parts, weighed by the stream        (fusion "auto")
          + strength * known * trust * witness * g          the whitened discriminants

| factor  | what it asks                                                                    | function             |
|---------|---------------------------------------------------------------------------------|----------------------|
| known   | does the memory know the classes that the text finds plausible?                 | `WhitenedMemory`     |
| trust   | does it name new images as the text does, nearly as often as remembered ones?   | `Reputation.trust`   |
| witness | do MCP's parts, which never saw it, side with it as often as with the text?     | `Reputation.witness` |

The last two are what keeps a memory of yesterday's classes, or of too few images, from speaking. With many classes the
witnesses hold the text's side; there a memory that they support far beyond chance still speaks, softly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import Block, Image
from trimtab.engine.compiled import njit
from trimtab.engine.kernels import VECTORIZE, best_of, ramp, softmax_in_place
from trimtab.engine.operations import Size
from trimtab.engine.parameters import number, slots
from trimtab.engine.products import dot
from trimtab.engine.state import State
from trimtab.engine.temper import TextTemper
from trimtab.engine.whitened import WhitenedMemory
from trimtab.methods.base import CacheMethod, WeighedMethod
from trimtab.methods.facts import CACHE, MethodInfo
from trimtab.methods.mcp import MCP, MCPState
from trimtab.task import Task

WITNESSED = (0.85, 1.05)  # the witnesses' support for the memory over that for the text: from nothing to full weight

SOFTLY = 0.25  # of its weight, for a memory that witnesses support less than the text, but far more than chance would:
BEYOND_CHANCE = (0.4, 0.5)  # how much more, as a share of all that is beyond chance; from nothing to full weight

FAINT = 1e-3  # a weight below is none at all: a memory that knows nothing should not be heard to name a class

# Places in the array of figures,
SEEN, ASKED, ALIKE, FOR_MEMORY, FOR_TEXT = range(5)
# and in that of what the witnesses said of the image before, which supports the memory now by chance alone.
FIRST, SECOND, BY_CHANCE = range(3)


class Reputation:
    """What a stream shows of its text and its memory, without labels: a few running figures."""

    def __init__(self) -> None:
        self.figures = np.array([0.0, 0.0, 0.0, 0.4, 0.8])  # the memory has to earn its place
        self.chance = np.array([-1.0, -1.0, 0.4])

    def arrays(self) -> Arrays:
        """Everything learned."""
        return {"figures": self.figures, "chance_figures": self.chance}

    def trust(self, expected: float) -> float:
        """How far the memory names new images as it names those it holds, 0 to 1."""
        return float(_trust(self.figures, expected))

    def witness(self) -> float:
        """How far MCP's parts side with the memory as often as with the text, or beyond chance, 0 to 1."""
        return float(_witness(self.figures, self.chance))

    def learn(
        self, text: Array, scales: Array, scores: Array, witnesses: Sequence[Array], memory: WhitenedMemory
    ) -> Doubles:
        """Take in n images, (n, C) each: text logits with their scales (n,), discriminants, MCP's two other parts.

        (n,): trust times witness as each image finds them, learned from those before it.
        """
        found = np.empty(len(text))
        said, asked = (witnesses[0], witnesses[1]), (memory.fitted, memory.agreement)
        _learn(self.figures, self.chance, text, scales, memory.habit, scores, said, asked, found)
        return found


@dataclass
class KeelState(State):
    """MCP's state, the whitened memory, and what each has shown itself to be worth."""

    mcp: MCPState
    memory: WhitenedMemory
    reputation: Reputation


@dataclass(frozen=True, kw_only=True)
class Keel(CacheMethod, WeighedMethod):
    """MCP steadied by a whitened memory: trimtab's own method, for streams that nobody has labeled or tuned on."""

    name: ClassVar[str] = "keel"
    parts: ClassVar[tuple[str, ...]] = (*MCP.parts, "whitened")
    weighed: ClassVar[tuple[str, ...]] = ("whitened",)
    info: ClassVar[MethodInfo] = MethodInfo(
        title="Keel",
        paper="trimtab's own",
        venue="trimtab",
        keeps="three caches, a memory",
        traits=CACHE | {"HighEntro", "ExpTestDist"},
        look=("#7F3C8D", "*", "-"),
    )

    memory_slots: int = slots(
        2048,
        least=64,
        about="Images in the memory, of all classes together: the last ones. Fewer follow a drifting stream faster.",
    )
    strength: float = number(
        1.5,
        least=0,
        symbol="k",
        about="Weight of the whitened discriminants where all evidence is for them; 0 leaves MCP.",
    )

    @cached_property
    def mcp(self) -> MCP:
        """The method that Keel steadies: its defaults."""
        return MCP(view_fraction=self.view_fraction, order=self.order)

    def new_state(self, task: Task) -> KeelState:
        """Nothing cached, nothing remembered."""
        mcp = self.mcp.new_state(task)
        assert isinstance(mcp.temper, TextTemper)
        return KeelState(
            mcp=mcp,
            memory=WhitenedMemory(task.text_prototypes, self.memory_slots, self.strength, mcp.temper.level),
            reputation=Reputation(),
        )

    def step(self, image: Image, state: KeelState) -> dict[str, Array]:
        """MCP's step, then the memory's word, which is always that of the images before."""
        parts = self.mcp.step(image, state.mcp)
        row, rows = slice(image.row, image.row + 1), {name: part[None] for name, part in parts.items()}
        parts["whitened"] = self._learned(image.block, row, rows, state)[0]
        return parts

    def walk(self, block: Block, state: KeelState, learned: NDArray[np.bool_]) -> dict[str, Array] | None:
        """MCP's walk, then the memory's word: stretches that no fit divides, nor an image that is not learned from."""
        state.memory.open(block)
        parts = self.mcp.walk(block, state.mcp, learned)
        if parts is None:
            return None
        whitened, first = np.empty_like(block.logits), 0
        while first < len(block):
            same = np.flatnonzero(learned[first:] != learned[first])
            last = first + int(same[0]) if len(same) else len(block)
            if learned[first]:
                rows = slice(first, min(first + state.memory.until_fit, last))
                whitened[rows] = self._learned(block, rows, {name: part[rows] for name, part in parts.items()}, state)
            else:
                rows = slice(first, last)
                worth = np.full(last - first, self._worth(state))
                whitened[rows] = self._spoken(block, rows, worth, state.memory)
            first = rows.stop
        return {**parts, "whitened": whitened}

    def foretell(self, image: Image, state: KeelState) -> dict[str, Array]:
        """As `step`, without what the memory learns after the answer is known."""
        return {**self.mcp.step(image, state.mcp), "whitened": self._whitened(image, state)}

    def observe(self, image: Image, state: KeelState) -> None:
        """A whole step: what the memory is worth depends on the prediction."""
        self.step(image, state)

    def items_left(self, state: KeelState) -> None:
        """MCP's caches have lost items; the memory keeps images of all classes alike."""
        self.mcp.items_left(state.mcp)

    def predict(self, image: Image, state: KeelState) -> dict[str, Array]:
        """MCP's three parts, and what the memory adds."""
        return {**self.mcp.predict(image, state.mcp), "whitened": self._whitened(image, state)}

    def _whitened(self, image: Image, state: KeelState) -> Array:
        """(C,): what is multiplied to MCP's prediction, as probabilities."""
        worth = np.array([self._worth(state)])
        return self._spoken(image.block, slice(image.row, image.row + 1), worth, state.memory)[0]

    def _worth(self, state: KeelState) -> float:
        """Trust times witness, as an image finds them now."""
        return state.reputation.trust(state.memory.agreement) * state.reputation.witness()

    def _spoken(self, block: Block, rows: slice, worth: Doubles, memory: WhitenedMemory) -> Array:
        """(n, C): the same for some images of the open block; `worth` is trust times witness."""
        scores = memory.scores(rows)
        said: Array = np.empty_like(scores)
        _speak(block.probabilities[rows], memory.reliability, self.strength * worth, scores, said)
        return said

    def _learned(self, block: Block, rows: slice, parts: dict[str, Array], state: KeelState) -> Array:
        """(n, C): what the memory says of images that no fit divides; then it remembers them."""
        memory, witnesses = state.memory, [parts["prototype"], parts["retrieval"]]
        text, scales = block.logits[rows], block.logit_scales[rows]
        worth = state.reputation.learn(text, scales, memory.scores(rows), witnesses, memory)
        whitened = self._spoken(block, rows, worth, memory)
        memory.take_in(rows)
        return whitened

    def operations(self, size: Size) -> float:
        """MCP's and one more product with the classes; the fits come once in hundreds of images."""
        return self.mcp.operations(size) + size.products(1, size.classes)


@njit(nogil=True)
def _reached(figures: Doubles, expected: float) -> float:
    """How often the memory names a new image as the text, less its habit, does."""
    asked, alike = figures[ASKED], figures[ALIKE]
    return (10 * 0.65 * expected + asked * alike) / (10 + asked)  # ten doubtful images to begin with


@njit(nogil=True)
def _trust(figures: Doubles, expected: float) -> float:
    return min(max(2 * _reached(figures, expected) / max(expected, 1e-3) - 1, 0.0), 1.0)


@njit(nogil=True)
def _witness(figures: Doubles, chance: Doubles) -> float:
    support, by_chance = figures[FOR_MEMORY], chance[BY_CHANCE]
    as_the_text = ramp(support / max(figures[FOR_TEXT], 1e-6), *WITNESSED)
    softly = SOFTLY * ramp((support - by_chance) / max(1 - by_chance, 1e-6), *BEYOND_CHANCE)
    return as_the_text + (1 - as_the_text) * softly


@njit(nogil=True)
def _learn(
    figures: Doubles,
    chance: Doubles,
    text: Array,
    scales: Array,
    habit: Array,
    scores: Array,
    witnesses: tuple[Array, Array],
    asked: tuple[bool, float],
    found: Doubles,
) -> None:
    unbiased = np.empty_like(habit)
    (first, second), (fitted, expected) = witnesses, asked
    for image in range(len(text)):
        found[image] = _trust(figures, expected) * _witness(figures, chance)
        recent = min(figures[SEEN], 200.0) + 20.0
        named, remembered = best_of(text[image]), best_of(scores[image])
        one, other = best_of(first[image]), best_of(second[image])
        figures[FOR_TEXT] += (0.5 * ((one == named) + (other == named)) - figures[FOR_TEXT]) / recent
        if fitted:
            for_memory = 0.5 * ((one == remembered) + (other == remembered))
            by_chance = 0.5 * ((chance[FIRST] == remembered) + (chance[SECOND] == remembered))
            own, scale = text[image], scales[image]
            for c in range(len(own)):
                unbiased[c] = own[c] - scale * habit[c]
            alike = 1.0 if best_of(unbiased) == remembered else 0.0
            figures[FOR_MEMORY] += (for_memory - figures[FOR_MEMORY]) / recent
            chance[BY_CHANCE] += (by_chance - chance[BY_CHANCE]) / recent
            figures[ASKED] = min(figures[ASKED] + 1, 100.0)
            figures[ALIKE] += (alike - figures[ALIKE]) / figures[ASKED]
        chance[FIRST], chance[SECOND] = one, other
        figures[SEEN] += 1


@njit(fastmath=VECTORIZE, nogil=True)
def _speak(probabilities: Array, reliability: Array, worth: Doubles, scores: Array, said: Array) -> None:
    """Write (n, C): the discriminants, by the worth of each image and how well its classes are known; a softmax."""
    for image in range(len(said)):
        weight = np.float32(dot(probabilities[image], reliability) * worth[image])
        weight = weight if weight >= FAINT else np.float32(0)
        row, own = said[image], scores[image]
        for c in range(len(row)):
            row[c] = weight * own[c]
        softmax_in_place(row)
