"""State: what a method has learned, as named arrays and nothing else.

Because a state is only arrays, saving, loading, copying and counting its memory are written once, here.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Arrays
from trimtab.engine.bank import Bank
from trimtab.engine.block import Block, Image
from trimtab.engine.once import once


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
        for open_part in self._opened:
            open_part(block)

    @once
    def _opened(self) -> list[Callable[[Block], None]]:
        """What a block is opened for, of all parts. Asked at every step, so it is looked for once; as are the next."""
        found: list[Callable[[Block], None]] = []
        for _, part in self._parts():
            if isinstance(part, State) and type(part).open is State.open:
                found += part._opened
            elif isinstance(part, Bank | State):
                found.append(part.open)
        return found

    def hold(self) -> Callable[[], None]:
        """Remember everything; what is returned puts all of it back, bit for bit.

        A part that knows what it overwrites has a `hold` of its own, as a Bank has; of others every array is copied.
        """
        copies, undo = {}, []
        for name, part in self._parts():
            if isinstance(part, np.ndarray):
                copies[name] = (part, part.copy())
            elif hasattr(part, "hold"):
                undo.append(part.hold())
            else:
                copies |= {f"{name}.{inner}": (array, array.copy()) for inner, array in part.arrays().items()}

        def put_back() -> None:
            for back in undo:
                back()
            for live, before in copies.values():
                live[...] = before

        return put_back

    def before_judging(self, block: Block) -> None:
        """Give a block what a guard looks at, as the state will see it: its logit scale, and its text cosines from
        whoever multiplies them anyway.
        """
        for give in self._before_judging:
            give(block)

    @once
    def _before_judging(self) -> list[Callable[[Block], None]]:
        """Of all parts that have something to give."""
        found: list[Callable[[Block], None]] = []
        for _, part in self._parts():
            if isinstance(part, State) and type(part).before_judging is State.before_judging:
                found += part._before_judging
            elif hasattr(part, "before_judging"):
                found.append(part.before_judging)
        return found

    def pass_by(self, image: Image) -> None:
        """An image that nothing is learned from went by: tell the parts that count it all the same."""
        for _, part in self._parts():
            if hasattr(part, "pass_by"):
                part.pass_by(image)

    def count_block(self, block: Block) -> None:
        """A block was walked: tell the parts that count every image, learned from or not."""
        for count in self._counted:
            count(block)

    @once
    def _counted(self) -> list[Callable[[Block], None]]:
        """What counts blocks, of all parts."""
        found: list[Callable[[Block], None]] = []
        for _, part in self._parts():
            if isinstance(part, State) and type(part).count_block is State.count_block:
                found += part._counted
            elif hasattr(part, "count_block"):
                found.append(part.count_block)
        return found

    def take_stock(self) -> None:
        """From time to time: let the parts find anew what they do not find at every image."""
        for _, part in self._parts():
            if hasattr(part, "take_stock"):
                part.take_stock()

    def report(self) -> dict[str, float]:
        """What the parts have found from the stream that people should see, by name."""
        found: dict[str, float] = {}
        for _, part in self._parts():
            if isinstance(part, State):
                found |= part.report()
        return found

    def forget(self, positions: NDArray[np.int64]) -> int | None:
        """Let go of the items that came from these images; how many there were, None if no part can tell."""
        counts = [part.forget(positions) for _, part in self._parts() if hasattr(part, "forget")]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def correct(self, position: int, label: int) -> int:
        """Tell the parts that remember an image beside the banks what it shows; how many do."""
        return sum(part.correct(position, label) for _, part in self._parts() if hasattr(part, "correct"))

    def positions(self) -> set[int]:
        """Positions in the stream of all images that are kept."""
        return {position for _, part in self._parts() if hasattr(part, "positions") for position in part.positions()}

    def banks(self) -> Iterator[Bank]:
        """Every bank of the state: where the images are that a method keeps."""
        return iter(self._banks)

    @once
    def _banks(self) -> list[Bank]:
        found: list[Bank] = []
        for _, part in self._parts():
            if isinstance(part, Bank):
                found.append(part)
            elif isinstance(part, State):
                found += part.banks()
        return found

    def _parts(self) -> Iterator[tuple[str, Any]]:
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]  # every subclass is a dataclass
            yield name, getattr(self, name)


class OwnArrays(State):
    """Base of states that are no dataclass: they name their arrays themselves, and have no parts."""

    def arrays(self) -> Arrays:
        """None, unless a subclass has some."""
        return {}

    def hold(self) -> Callable[[], None]:
        """Copy every array; what is returned puts them back."""
        copies = {name: array.copy() for name, array in self.arrays().items()}
        return lambda: fill(self.arrays(), copies)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        return iter(())


class Nothing(OwnArrays):
    """The state of a method that remembers nothing."""


def fill(arrays: Arrays, values: Arrays) -> None:
    """Copy values into live arrays of the same names and shapes."""
    for name, array in arrays.items():
        array[...] = values[name]
