"""State: what a method has learned, as named arrays and nothing else.

Because a state is only arrays, saving, loading, copying and counting its memory are written once, here.
"""

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.bank import Bank
from trimtab.engine.block import Block

Arrays = dict[str, NDArray[np.generic]]


class State:
    """Base of the methods' states: a dataclass whose fields are arrays, or hold arrays (a Bank, NegativeLabels)."""

    def arrays(self) -> Arrays:
        """Every array of the state by its name; these are the live arrays, not copies."""
        found: Arrays = {}
        for part in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, part.name)
            if isinstance(value, np.ndarray):
                found[part.name] = value
            else:
                found.update({f"{part.name}.{name}": array for name, array in value.arrays().items()})
        return found

    def open(self, block: Block) -> None:
        """Make the similarities of a block's images with everything stored ready."""
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name)
            if isinstance(value, Bank):
                value.open(block)


def fill(arrays: Arrays, values: Arrays) -> None:
    """Copy values into live arrays of the same names and shapes."""
    for name, array in arrays.items():
        array[...] = values[name]
