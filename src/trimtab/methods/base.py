"""What every method is: hyper-parameters, a state, and three verbs.

A method is a frozen dataclass. `observe` may write an image into the state, `predict` only reads, and `step` does both
in the method's order. All see an `Image`, whose zero-shot prediction is ready, and a state whose similarities to it are
ready. Beside them stand the facts of the method: its record (`info`), the values of its released program (`released`),
the templates of its authors, and its count of operations.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image, Query
from trimtab.engine.moving_text import RunningText
from trimtab.engine.operations import Size
from trimtab.engine.parameters import check, choice, docstring, number
from trimtab.errors import TrimtabError
from trimtab.fusion import FixedWeights, Fusion, FusionChoice, fusion_choice, new_fusion
from trimtab.guard.rules import Guard
from trimtab.methods.facts import MethodInfo, Released, Templates
from trimtab.stream import Stream
from trimtab.task import Task

PLAIN: Query = "plain"
CONFIDENT_MEAN: Query = "confident_mean"


def share_of_views() -> Any:
    """The parameter `view_fraction` of every method that chooses among views."""
    return number(
        0.1,
        least=0,
        most=1,
        symbol="rho",
        about="Share of an image's views that count: those of lowest entropy, at least one. Raise it for few views.",
    )


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Base of all methods. Subclasses declare `name`, `parts` and their hyper-parameters."""

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]  # the names of the probability vectors that a prediction is made of
    info: ClassVar[MethodInfo | None] = None
    # What the method asks for beyond features and text prototypes: "text_tower" (in the task), "pixels".
    needs: ClassVar[frozenset[str]] = frozenset()
    # Data set -> the released program's parameters, THOSE CHOSEN WITH THE TEST SETS IN SIGHT.
    released_values: ClassVar[Released] = {}
    templates: ClassVar[Templates] = {}  # data set -> the set of templates that the authors use on it

    # What stands for an image, and which views count. Methods that let users choose make them parameters.
    query = PLAIN
    view_fraction = 1.0

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete the docstring with what each parameter means, so that `help` shows it; see `walk` for the rest."""
        super().__init_subclass__(**options)
        if "walk" not in vars(cls):  # an inherited one would pass by what the subclass changes
            cls.walk = Method.walk  # type: ignore[method-assign]
        found: dict[str, Field[Any]] = {}
        for owner in reversed(cls.__mro__):
            found |= vars(owner).get("__dataclass_fields__", {})
        found |= {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        parameters = {name: field for name, field in found.items() if "allowed" in field.metadata}
        if cls.__doc__ and parameters:
            cls.__doc__ = docstring(cls.__doc__, parameters)

    def __post_init__(self) -> None:
        check(self)

    @abstractmethod
    def new_state(self, task: Task) -> Any:
        """What the method knows before the first image."""

    @abstractmethod
    def observe(self, image: Image, state: Any) -> None:
        """Take in an image: a state is written here, and nowhere else."""

    @abstractmethod
    def predict(self, image: Image, state: Any) -> dict[str, Array]:
        """Part name -> (C,) probabilities, from the state as it is."""

    def step(self, image: Image, state: Any) -> dict[str, Array]:
        """Take in an image and predict it, in the method's order. Override it where the two share work."""
        if self.writes_first:
            self.observe(image, state)
            return self.predict(image, state)
        parts = self.predict(image, state)
        self.observe(image, state)
        return parts

    def foretell(self, image: Image, state: Any) -> dict[str, Array]:
        """What `step` would answer. It may write, and whoever asks puts the state back.

        Override it where a step does something costly after its answer is known.
        """
        return self.step(image, state)

    def walk(self, block: Block, state: Any, learned: NDArray[np.bool_]) -> dict[str, Array] | None:  # noqa: ARG002
        """Open a block, take in its images one after the other and predict each: part name -> (B, C), as `step` would.

        Of an image that is not `learned` (B,) from, the answer is the same, and the state is as before it. None, with
        nothing written, where there is no faster way than one step per image. It is not inherited: a subclass that
        changes nothing but defaults may say `walk = Parent.walk`.
        """
        return None

    @property
    def writes_first(self) -> bool:
        """Whether an image is taken in before it is predicted, as in the papers."""
        return True

    def look(self, task: Task, views: Array, first: int, text: Array | None = None) -> Block:
        """A block of images as the text sees them: the task's text, or one that has moved."""
        return Block(task, views, first, self.view_fraction, self.query_of_block, text)

    @property
    def query_of_block(self) -> Query:
        """What stands for an image when it meets the caches."""
        return self.query

    def items_left(self, state: Any) -> None:  # noqa: B027  (most methods have nothing to do)
        """Items were taken out of the state's banks: make what depends on them true. Read-outs see to themselves."""

    def moving_text(self, state: Any) -> RunningText | None:  # noqa: ARG002
        """The text prototypes, if the method moves them along the stream; images are then seen one at a time."""
        return None

    def new_fusion(self, task: Task) -> Fusion:  # noqa: ARG002
        """What makes one prediction of the parts."""
        return FixedWeights(self.parts, (1.0,) * len(self.parts))

    def operations(self, size: Size) -> float | None:  # noqa: ARG002
        """How many operations adapting to one image takes, by the method's formulas; None: not counted."""
        return None

    def parameters(self) -> dict[str, Any]:
        """The hyper-parameters by name."""
        return asdict(self)

    def contents(self) -> dict[str, str]:
        """Parameter -> a hash of the file that it names: results depend on what a file holds, not on where it lies."""
        return {}

    def start(self, task: Task, guard: Guard | None = None) -> Stream:
        """A new stream of images under this method, exactly as it is, or with a guard before it."""
        return Stream(self, task, guard)

    @classmethod
    def released(cls, dataset: str) -> Self:
        """The method with the values of its released program for one of the paper's 15 sets ("imagenet-a", ...).

        THEY WERE CHOSEN WITH THE TEST SETS IN SIGHT: one set of values per test set, none validated elsewhere. A figure
        made with them owes that to the labels.
        """
        return cls(**cls.values_released_for(dataset))

    @classmethod
    def values_released_for(cls, dataset: str) -> Mapping[str, Any]:
        """The values themselves, or one sentence on which sets there are some for."""
        if not cls.released_values:
            raise TrimtabError(
                f"There are no released values for {cls.name!r}: it has one set of defaults, the same for every set."
            )
        if dataset not in cls.released_values:
            raise TrimtabError(
                f"There are no released values for {dataset!r}; there are for {', '.join(cls.released_values)}."
            )
        return cls.released_values[dataset]


@dataclass(frozen=True, kw_only=True)
class CacheMethod(Method):
    """A method that keeps images."""

    view_fraction: float = share_of_views()
    order: str = choice(
        "write_first",
        ("write_first", "predict_first"),
        about="Whether an image is stored before it is predicted, and so can see itself, as in the papers; "
        "'predict_first' is the stricter protocol.",
    )

    @property
    def writes_first(self) -> bool:
        """Whether an image is taken in before it is predicted."""
        return self.order == "write_first"


@dataclass(frozen=True, kw_only=True)
class WeighedMethod(Method):
    """A method whose prediction has several parts, and a parameter that says how they are weighed."""

    weighed: ClassVar[tuple[str, ...]] = ()  # parts that the method has weighed itself, which 'auto' leaves as they are

    fusion: FusionChoice = fusion_choice(
        "auto",
        symbol="alpha_1, alpha_2, alpha_3",
        about="How the parts become one prediction: 'auto' finds weights from the unlabeled stream ('auto-orderless': "
        "whatever the order of its images); given weights sum the parts' probabilities, as in the papers.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.fusion, list):
            object.__setattr__(self, "fusion", tuple(self.fusion))
        # Weights that do not fit are refused now rather than at the start.
        new_fusion(self.fusion, self.parts, classes=2, weighed=self.weighed)

    def new_fusion(self, task: Task) -> Fusion:
        """What makes one prediction of the parts."""
        return new_fusion(self.fusion, self.parts, task.classes, self.weighed)
