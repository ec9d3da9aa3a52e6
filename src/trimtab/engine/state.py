"""State: what a method has learned, as named arrays and nothing else.

Because a state is only arrays, saving, loading, copying and counting its memory are written once, here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from trimtab.engine.arrays import Arrays
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block


class State:
    """Base of the methods' states: a dataclass whose fields are arrays, or parts that hold arrays.

    A part is anything with a method `arrays`: a Bank, a read-out, another State.
    """

    def arrays(self) -> Arrays:
        """Every array of the state by its name; these are the live arrays, not copies."""
        found: Arrays = {}
        for name, part in self._parts():
            if isinstance(part, np.ndarray):
                found[name] = part
            else:
                found.update({f"{name}.{inner}": array for inner, array in part.arrays().items()})
        return found

    def open(self, block: Block) -> None:
        """Make the similarities of a block's images with everything stored ready."""
        for _, part in self._parts():
            if isinstance(part, Bank | State):
                part.open(block)

    def banks(self) -> Iterator[Bank]:
        """Every bank of the state: where the images are that a method keeps."""
        for _, part in self._parts():
            if isinstance(part, Bank):
                yield part
            elif isinstance(part, State):
                yield from part.banks()

    def _parts(self) -> Iterator[tuple[str, Any]]:
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]  # every subclass is a dataclass
            yield name, getattr(self, name)


class OwnArrays(State):
    """Base of states that are no dataclass: they name their arrays themselves, and have no parts."""

    def arrays(self) -> Arrays:
        """None, unless a subclass has some."""
        return {}

    def _parts(self) -> Iterator[tuple[str, Any]]:
        return iter(())


class Nothing(OwnArrays):
    """The state of a method that remembers nothing."""


def fill(arrays: Arrays, values: Arrays) -> None:
    """Copy values into live arrays of the same names and shapes."""
    for name, array in arrays.items():
        array[...] = values[name]
