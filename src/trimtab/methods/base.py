"""What every method is: hyper-parameters, a state, and two verbs.

A method is a frozen dataclass. `observe` may write an image into the state; `predict` only reads.
Both see an `Image`, whose zero-shot prediction is ready, and a state whose similarities to it are ready.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from trimtab.engine.block import Block, Image
from trimtab.engine.equations import Array
from trimtab.engine.parameters import check, choice, number
from trimtab.engine.state import State
from trimtab.fusion import FixedWeights, Fusion
from trimtab.task import Task

if TYPE_CHECKING:
    from trimtab.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Base of all methods. Subclasses declare `name`, `parts` and their hyper-parameters."""

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]]  # the names of the probability vectors that a prediction is made of

    def __post_init__(self) -> None:
        check(self)

    @abstractmethod
    def new_state(self, task: Task) -> Any:
        """What the method knows before the first image."""

    @abstractmethod
    def observe(self, image: Image, state: Any) -> None:
        """Take in an image: the only place where a state is written."""

    @abstractmethod
    def predict(self, image: Image, state: Any) -> dict[str, Array]:
        """Part name -> (C,) probabilities, from the state as it is."""

    def look(self, task: Task, views: Array, first: int) -> Block:
        """A block of images as the text sees them."""
        return Block(task, views, first)

    def new_fusion(self, task: Task) -> Fusion:  # noqa: ARG002
        """What makes one prediction of the parts."""
        return FixedWeights(self.parts, (1.0,) * len(self.parts))

    @property
    def writes_first(self) -> bool:
        """Whether an image is taken in before it is predicted, as in the papers."""
        return True

    def parameters(self) -> dict[str, Any]:
        """The hyper-parameters by name."""
        return asdict(self)

    def start(self, task: Task) -> "Stream":
        """A new stream of images under this method."""
        from trimtab.stream import Stream

        return Stream(self, task)


@dataclass(frozen=True, kw_only=True)
class CacheMethod(Method):
    """A method that keeps images: what stands for an image, which of its views count, and when it is written.

    * `order`: "write_first" (the papers: an image can see itself) or "predict_first".
    * `view_fraction`: the share of most confident views that are kept (at least one).
    """

    view_fraction: float = number(0.1, least=0, most=1)
    order: str = choice("write_first", ("write_first", "predict_first"))

    @property
    def writes_first(self) -> bool:
        """Whether an image is taken in before it is predicted."""
        return self.order == "write_first"

    def look(self, task: Task, views: Array, first: int) -> Block:
        """A block of images as the text sees them."""
        return Block(task, views, first, self.view_fraction)

    @abstractmethod
    def new_state(self, task: Task) -> State:
        """What the method knows before the first image."""
