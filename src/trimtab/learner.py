"""Learner: how a stream's images are taken in, one after the other, past a guard if there is one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Arrays, Doubles
from trimtab.engine.block import LEARNED, NOT_LEARNED, Block, Image
from trimtab.engine.wide import WIDE, WideBank
from trimtab.errors import TrimtabError
from trimtab.guard.correction import without_corrected
from trimtab.guard.rules import Guard
from trimtab.guard.snapshots import Snapshots
from trimtab.guard.watch import STRETCH, Watch
from trimtab.steps import Steps
from trimtab.task import Task

# Of n images: parts and their fusion (n, C), and the probabilities (n,) that no class is shown.
Answers = tuple[dict[str, Array], Array, Doubles]


class Learner:
    """What a method has learned of a task, its guard, and the walk that changes both. `Stream` is what users hold."""

    method: Steps
    task: Task
    guard: Guard | None

    def reset(self) -> None:
        """Forget everything."""
        self.state: Any = self.method.new_state(self.task)
        self.fusion = self.method.new_fusion(self.task)
        if self.guard and self.guard.snapshots and any(isinstance(bank, WideBank) for bank in self.state.banks()):
            raise TrimtabError(f"Snapshots are for label sets of up to {WIDE:,} classes; leave them off.")
        self.watch = self._new_watch()
        ring = 0 if self.watch is None else self.watch.guard.snapshots
        self.good = Snapshots(self._learned_arrays(), ring) if ring else None
        self._seen = np.zeros(1, np.int64)
        self._whole = True  # False while an image is being taken in

    def _new_watch(self) -> Watch | None:
        """The guard at work; a method that keeps nothing needs none, unless images may show none of the classes."""
        if self.guard is None or not (self.guard.unknown or self.state.arrays()):
            return None
        return Watch(self.guard, self.task)

    @property
    def seen(self) -> int:
        """How many images the stream has taken in."""
        return int(self._seen[0])

    def _walk(self, views: Array, sources: NDArray[np.int64]) -> Iterator[Answers]:
        """Take in images, one after the other; yield answers of a block where the method can walk one, else of each."""
        self._refuse_half_learned()
        start, watch = self.seen, self.watch
        for stretch in self._stretches(views):
            for block in self._blocks(stretch):
                if watch is None:
                    yield from self._learn(block, LEARNED if len(block) == 1 else np.ones(len(block), np.bool_))
                else:
                    first, count = block.first - start, len(block)
                    own = sources if count == len(sources) else sources[first : first + count]
                    yield from self._learn_some(block, own, watch)
            if self.seen % STRETCH == 0:
                self.state.take_stock()
                if watch is not None:
                    self._look_back(watch)

    def _learn(self, block: Block, learned: NDArray[np.bool_]) -> Iterator[Answers]:
        """Take in a block; of images that are not learned from, only the answer stays."""
        self._whole = False
        walked = self.method.walk(block, self.state, learned)
        if walked is not None:
            self.state.count_block(block)
            fused = self.fusion.walk(walked, block.sure, learned)
            self._seen[0] += len(block)
            self._whole = True
            yield walked, fused, np.zeros(len(block))
            return
        self._whole = True
        self.state.open(block)
        for image in block:
            self._whole = False
            if learned[image.row]:
                parts = self.method.step(image, self.state)
                fused = self.fusion.step(parts, image.sure)
            else:
                parts, fused = self._passed_by(image, comes_next=True)
                self.state.pass_by(image)
            self._seen += 1
            self._whole = True
            yield _rows(parts), fused[None], np.zeros(1)

    def _learn_some(self, block: Block, sources: NDArray[np.int64], watch: Watch) -> Iterator[Answers]:
        """Learn from each image of a block that may be learned from; the others get the answer of a step taken back."""
        self.state.before_judging(block)
        learned = block.counted = watch.judge(block, sources)
        doubts, done, count = watch.doubts, 0, len(learned)
        try:
            for parts, fused, _ in self._learn(block, learned):
                rows = slice(done, done + len(fused))
                answers = watch.hear(block, rows, parts, fused)
                done = rows.stop
                yield parts, answers, doubts if len(fused) == count else doubts[rows]
        finally:
            watch.finish(block, sources, done)

    def _foretell(self, block: Block) -> tuple[dict[str, Array], Array]:
        """What a step after a cut would answer of a block's only image, with nothing learned."""
        walked = self.method.walk(block, self.state, NOT_LEARNED)
        if walked is not None:
            parts = {name: part[0] for name, part in walked.items()}
            return parts, self.fusion.combine(parts, block[0].sure)
        self.state.open(block)
        return self._passed_by(block[0], comes_next=False)

    def _passed_by(self, image: Image, *, comes_next: bool) -> tuple[dict[str, Array], Array]:
        """What a step would answer of an image of the open block, with its writes taken back."""
        put_back = self.state.hold()
        try:
            parts = self.method.foretell(image, self.state)
            answer = self.fusion.combine(parts, image.sure, comes_next=comes_next)
            return {name: part.copy() for name, part in parts.items()}, answer
        finally:
            put_back()

    def _stretches(self, views: Array) -> Iterator[Array]:
        """The images up to each point where the stream takes stock: what it finds there holds for whole blocks."""
        if len(views) == 1:
            yield views
            return
        first = 0
        while first < len(views):
            last = first + STRETCH - self.seen % STRETCH
            yield views[first:last]
            first = last

    def _look_back(self, watch: Watch) -> None:
        """At the end of a stretch: let go of what should not have been learned."""
        if watch.has_to_start_over():
            self.state, self.fusion = self.method.new_state(self.task), self.method.new_fusion(self.task)
        strange = watch.strange_by_now(self.seen)
        if len(strange) and self.state.forget(without_corrected(strange, self.state)):
            self.method.items_left(self.state)
        for bank in self.state.banks():
            gone = watch.contradicted(bank, self.seen)
            if gone is not None:
                bank.drop(gone)
                self.method.items_left(self.state)
        go_back = watch.look_back(self.seen)
        if self.good is not None:
            self.good.look_back(self.seen, watch, self._learned_arrays(), go_back=go_back)

    def _learned_arrays(self) -> Arrays:
        found: Arrays = {f"state.{name}": array for name, array in self.state.arrays().items()}
        return found | {f"fusion.{name}": array for name, array in self.fusion.arrays().items()}

    def _refuse_half_learned(self) -> None:
        if not self._whole:
            raise TrimtabError(
                f"Taking in image {self.seen} was broken off, so what this stream has learned is not whole; "
                "reset it, or load it from where it was saved."
            )

    def _blocks(self, views: Array) -> Iterator[Block]:
        """The images as the text sees them: all together, or one at a time where each may move the text."""
        text = self.method.moving_text(self.state)
        if text is None:
            yield self.method.look(self.task, views, self.seen, None)
            return
        for row in range(len(views)):
            yield self.method.look(self.task, views[row : row + 1], self.seen, text.units)


def _rows(parts: dict[str, Array]) -> dict[str, Array]:
    """One image's parts as those of a block of one."""
    return {name: part[None] for name, part in parts.items()}
