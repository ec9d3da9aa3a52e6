"""A method of one's own: each class remembers the images it met last, however uncertain they were."""

from dataclasses import dataclass
from typing import ClassVar

from trimtab.engine import AffinitySums, Array, Bank, Image, State, number, softmax
from trimtab.methods.base import CacheMethod
from trimtab.task import Task


@dataclass
class Memory(State):
    """The latest images of each class, and what they say of a new one."""

    bank: Bank
    support: AffinitySums


@dataclass(frozen=True, kw_only=True)
class Recent(CacheMethod):
    """TDA's positive cache, first in first out."""

    name: ClassVar[str] = "recent"
    parts: ClassVar[tuple[str, ...]] = ("adapted",)
    alpha: float = number(2.0, least=0, about="Strength of the memory beside the text.")

    def new_state(self, task: Task) -> Memory:
        """Five empty slots per class."""
        bank = Bank(task.classes, task.dim, {"latest": 5})
        return Memory(bank, AffinitySums(bank, bank.sections["latest"], self.alpha, beta=5.0))

    def observe(self, image: Image, state: Memory) -> None:
        """The oldest image of the class gives way."""
        free = state.bank.free_slot("latest", image.label)
        slot = state.bank.oldest_slot("latest", image.label) if free is None else free
        state.bank.write(image.label, slot, image, image.entropy)

    def predict(self, image: Image, state: Memory) -> dict[str, Array]:
        """The text's logits, and what the memory adds to them."""
        return {"adapted": softmax(image.logits + state.support.at(image))}
