"""Streams that merge: what several streams of one kind have kept becomes one stream, by replaying it in order.

A method keeps a few images of all it has seen. Those survivors, sorted by when they came and then by name, are fed to
a fresh stream: that is the merged one. So a merged stream is a state that the method itself could have reached, and

* merging is commutative, and idempotent by source: an image that several streams kept counts once. Always, bit for bit;
* it is associative, and holds exactly what one stream over all images would hold, where admission looks at the image
  alone: TDA, MCP's entropy cache without promotion and aging, and Keel's memory of the last images. (While that holds
  every image, all of Keel's state is that of one stream after a `cut`, bit for bit.) Other caches ask what is kept
  already (MCP's align cache asks for the center), so there another order of merging gives another state, of like
  accuracy (docs/cluster.md).

Running figures (the weights of `fusion="auto"`, the text's scale, the strength of MCP's prototypes) are what the replay
makes of them. Their mean over the streams, which have seen more images, was worse in 18 of 20 comparisons on real
features (MCP and Keel): figures of the replay fit the caches that they weigh.

A method whose state was learned from images that it does not keep is refused. So is a stream with a guard: a guard
judges an image by those that came before it, most of which are gone when the survivors are replayed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trimtab import arguments
from trimtab.engine.alignment import Alignment
from trimtab.engine.arrays import Array
from trimtab.engine.bank import Bank
from trimtab.engine.halves import TextHalves
from trimtab.engine.moving_text import RunningText
from trimtab.engine.prototypes import Prototypes
from trimtab.engine.readouts import NegativePenalties, ReadOut
from trimtab.engine.state import Nothing, OwnArrays, State
from trimtab.engine.temper import TextTemper
from trimtab.engine.whitened import WhitenedMemory
from trimtab.errors import TrimtabError
from trimtab.predictions import Predictions
from trimtab.steps import Steps
from trimtab.stream import BLOCK, Stream
from trimtab.task import Task

# Parts that a replay of what is kept makes whole; so it does those that hold running figures and nothing else.
REPLAYED = (
    Bank,
    ReadOut,
    NegativePenalties,
    Prototypes,
    Alignment,
    RunningText,
    WhitenedMemory,
    TextHalves,
    TextTemper,
    Nothing,
)
FIGURES = "figures"  # how parts' names of arrays of running figures end


@dataclass(frozen=True, eq=False)
class Kept:
    """An image that a stream has kept: its name, when it came, and its views (V, d)."""

    source: str
    time: int
    views: Array


class MergingStream:
    """A stream that remembers the names of the images that it keeps, so that it can be merged with others.

    Beside the caches it holds the views of what they hold, and nothing of what they have let go.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = arguments.instance("stream", stream, Stream, "a trimtab.Stream")
        if stream.seen:
            raise TrimtabError("A stream can be merged only if it is given its images by name; begin with a new one.")
        _refuse_guarded(stream)
        _refuse_more_than_is_kept(stream.method.name, stream.state)
        self._kept: dict[int, Kept] = {}  # by position in this stream

    def run(
        self,
        features: ArrayLike,
        sources: Sequence[str],
        times: Sequence[int],
        *,
        block: int = BLOCK,
        keep_parts: bool = False,
    ) -> Predictions:
        """Take in images with a name and a time (a whole number) each, and predict them, as `Stream.run` does."""
        rows, images = self.stream._checked(arguments.numbers("features", features))
        views = rows[:, None] if rows.ndim == 2 else rows
        names = arguments.names("sources", _listed("sources", sources, "a name"))
        whens = [arguments.whole("a time", time) for time in _listed("times", times, "a whole number")]
        if not images == len(names) == len(whens):
            raise TrimtabError(f"There are {images} images, but {len(names)} sources and {len(whens)} times.")
        self._kept = self._still_held()
        first = self.stream.seen
        result = self.stream.run(views, block=block, keep_parts=keep_parts)
        held = self.stream.state.positions()
        for row, (source, time) in enumerate(zip(names, whens, strict=True)):
            if first + row in held:
                self._kept[first + row] = Kept(source, time, np.array(views[row]))
        self._kept = self._still_held()
        return result

    def _still_held(self) -> dict[int, Kept]:
        """What the stream has not let go of since, be it by itself or because somebody asked it to."""
        held = self.stream.state.positions()
        return {position: kept for position, kept in self._kept.items() if position in held}

    def copy(self) -> "MergingStream":
        """An independent stream that has learned the same."""
        other = MergingStream.__new__(MergingStream)
        other.stream, other._kept = self.stream.copy(), self._still_held()
        return other

    @property
    def kept(self) -> list[Kept]:
        """The images that the stream holds, in the order in which they are replayed."""
        return sorted(self._still_held().values(), key=_order)

    def save(self, path: str | Path) -> None:
        """Write what was learned, and the names and times of what is kept; the views stay where they came from."""
        note = {"kept": {str(at): [kept.source, kept.time] for at, kept in sorted(self._still_held().items())}}
        self.stream.note = {**self.stream.note, **note}
        self.stream.save(path)

    @classmethod
    def load(
        cls, path: str | Path, task: Task, views_of: Callable[[str], Array], method: Steps | None = None
    ) -> "MergingStream":
        """A stream that continues where the saved one stopped; `views_of(source)` gives an image's views again."""
        if not callable(views_of):
            raise TrimtabError(f"views_of must be a function of an image's name, not {arguments.shown(views_of)}.")
        found = cls.__new__(cls)
        found.stream = Stream.load(path, task, method)
        _refuse_guarded(found.stream)
        kept: Any = found.stream.note.get("kept")
        if not _names_images(kept):
            raise TrimtabError(f"{path} was saved by a stream that does not know the names of its images.")
        found._kept = {
            int(at): Kept(source, time, _views_again(found.stream, views_of, source))
            for at, (source, time) in kept.items()
        }
        return found


def merge(streams: Iterable[MergingStream]) -> MergingStream:
    """One stream of what several have kept; all must be of one method and one task.

    The order of the streams does not matter, nor does giving one twice.
    """
    if not isinstance(streams, Iterable) or getattr(streams, "ndim", 1) == 0:  # an array without axes
        raise TrimtabError(f"streams must be a list of MergingStreams, not {arguments.shown(streams)}.")
    given = list(streams)
    for stream in given:
        arguments.instance("streams", stream, MergingStream, "a list of MergingStreams")
    if not given:
        raise TrimtabError("There are no streams to merge.")
    first = given[0].stream
    for other in (stream.stream for stream in given[1:]):
        if (other.method, other.task.fingerprint) != (first.method, first.task.fingerprint):
            raise TrimtabError(
                f"Streams of one method and one task can be merged; one is of {first.method.name}, another of "
                f"{other.method.name} with other parameters or another task."
            )
    return replayed(first.method, first.task, (kept for stream in given for kept in stream.kept))


def replayed(method: Steps, task: Task, images: Iterable[Kept]) -> MergingStream:
    """The stream that results from images in order, each once: the same from what streams elsewhere have kept."""
    by_source: dict[str, Kept] = {}
    for kept in sorted(images, key=_order):
        by_source.setdefault(kept.source, kept)
    merged = MergingStream(Stream(method, task))
    ordered = list(by_source.values())
    if ordered:
        numbers = sorted({len(kept.views) for kept in ordered})
        if len(numbers) > 1:
            raise TrimtabError(
                f"Images with {numbers[0]} and with {numbers[-1]} views cannot be merged; give all the same number."
            )
        views = np.stack([kept.views for kept in ordered])
        merged.run(views, [kept.source for kept in ordered], [kept.time for kept in ordered])
        merged.stream.cut()  # whoever continues brings images of its own, not those that come next here
    return merged


def _listed(name: str, values: Iterable[Any], what: str) -> list[Any]:
    """The values in their order, which a set or a dict of them does not have."""
    unordered = isinstance(values, str | bytes | Mapping | Set) or getattr(values, "ndim", 1) != 1
    if unordered or not isinstance(values, Iterable):
        raise TrimtabError(f"{name} must be a list that holds {what} for each image, not {arguments.shown(values)}.")
    return list(values)


def _names_images(kept: Any) -> bool:
    """Whether a note says of images by their positions how they are called and when they came."""
    return isinstance(kept, dict) and all(
        at.isdecimal() and isinstance(image, list) and [type(each) for each in image] == [str, int]
        for at, image in kept.items()
    )


def _views_again(stream: Stream, views_of: Callable[[str], Array], source: str) -> Array:
    """(V, d): an image's views, as whoever has the images gives them."""
    try:
        views = arguments.numbers("views", views_of(source))
        stream._given.one_image(views, stream._size)
    except Exception as error:  # whatever a caller's function raises
        why = " ".join(str(error).split()) or type(error).__name__
        raise TrimtabError(f"views_of did not give the views of the image {source!r} again: {why}") from error
    return np.atleast_2d(views)


def _refuse_guarded(stream: Stream) -> None:
    if stream.guard is not None:
        raise TrimtabError(
            "A stream with a guard cannot be merged: most of the images that the guard judges by are gone by then; "
            "start the stream without a guard."
        )


def _refuse_more_than_is_kept(method: str, state: Any) -> None:
    names_its_arrays = type(state).positions is not State.positions  # then it says itself which images they are of
    for name, part in state._parts():
        if isinstance(part, REPLAYED) or (names_its_arrays and isinstance(part, np.ndarray)):
            continue
        if isinstance(part, State) and not isinstance(part, OwnArrays):
            _refuse_more_than_is_kept(method, part)
        elif isinstance(part, np.ndarray) or not all(each.endswith(FIGURES) for each in part.arrays()):
            raise TrimtabError(
                f"Streams of {method} cannot be merged: it does not keep the images that {name} was learned from; "
                "choose keel, mcp or tda."
            )


def _order(kept: Kept) -> tuple[int, str]:
    return kept.time, kept.source
