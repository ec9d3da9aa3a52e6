"""PromptedTower: features of class names under a context, and the way back, in chunks of classes."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from trimtab.encoders.prompted.wording import Wording
from trimtab.errors import TrimtabError

Array = NDArray[np.float32]

TOKENS_AT_ONCE = 512  # of one chunk: what a block makes of them stays near the processor
KEPT_BYTES = 1.2e9  # with the weights of a ViT-B/16's text tower and torch itself, the process stays below 2 GB
RECIPE = "prompted 1"  # part of the fingerprint: change it when the same weights would give other features


class TextModel(Protocol):
    """A text tower as a function of embeddings; see `causal` and `sentences`."""

    shares_head: bool

    @property
    def longest(self) -> int:
        """How many tokens a text may have."""

    def operations(self, tokens: int) -> float:
        """What a text of so many tokens takes, as the released programs compute it."""

    def embed(self, ids: Tensor) -> Tensor:
        """Token numbers -> embeddings."""

    def kept_floats(self, head: int, own: int) -> int:
        """How many numbers the way back needs of each of a class's `own` positions behind a head."""

    def head(self, embeddings: Tensor) -> list[Tensor]:
        """What every class needs of the positions that all share."""

    def features(self, head: Sequence[Tensor], embeddings: Tensor) -> Tensor:
        """(n, d) from the head and the embeddings (n, S, w) behind it."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Classes whose names have equally many tokens."""

    classes: Tensor  # (n,)
    names: Tensor  # (n, k, w)
    rests: Tensor  # (n, m, w)


class PromptedTower:
    """The text tower of some classes as a function of their context; see `trimtab.text_tower.TextTower`.

    The context stands before the names ("end"), around them ("middle") or after them ("front"), as in CoOp. The forward
    pass at `start` is kept after its first pull-back, because learning begins there for every image; it takes at most
    `kept_bytes`, and what does not fit is recomputed.
    """

    def __init__(
        self,
        text: TextModel,
        wording: Wording,
        start: Array,
        position: str,
        *,
        encoder_fingerprint: str,
        encoder: str,
        device: Any = "cpu",
        kept_bytes: float = KEPT_BYTES,
    ) -> None:
        self._text, self._wording, self._position = text, wording, position
        self._encoder, self._device, self._kept_bytes = encoder, device, kept_bytes
        self._first = text.embed(torch.tensor([wording.start], device=device))
        self._chunks = list(_chunks(text, wording, device))
        self.start = self._checked(start).copy()
        self.start.setflags(write=False)
        digest = hashlib.sha256("\0".join([RECIPE, encoder_fingerprint, position, *wording.class_names]).encode())
        digest.update(f"{self.start.shape}".encode() + self.start.tobytes())
        self.fingerprint = digest.hexdigest()
        self._features_at_start: Array | None = None
        self._pass_at_start: _Pass | None = None

    @property
    def operations(self) -> float:
        """What one pass of all classes takes, as the released programs make it; ours is shorter."""
        own = 1 + self.start.shape[-2]
        texts = zip(self._wording.names, self._wording.rests, strict=True)
        return sum(self._text.operations(own + len(name) + len(rest)) for name, rest in texts)

    def features(self, context: Array) -> Array:
        """(C, d): the unit text features of all classes under a context."""
        if not np.array_equal(context, self.start):
            return self._features(self._checked(context))
        if self._features_at_start is None:
            self._features_at_start = self._features(self.start)
        return self._features_at_start.copy()

    def pullback(self, context: Array, slopes: Array) -> Array:
        """The gradient at the context, in its shape, of a loss whose gradient at the features is `slopes` (C, d)."""
        if not np.array_equal(context, self.start):
            return self._pass(self._checked(context), kept_bytes=0).back(slopes)
        if self._pass_at_start is None:
            self._pass_at_start = self._pass(self.start, self._kept_bytes)
        return self._pass_at_start.back(slopes)

    def _features(self, context: Array) -> Array:
        with torch.inference_mode():
            given = self._tensor(context)
            head = self._head(given)
            found = [self._unit(head, chunk, _of_classes(given, chunk)) for chunk in self._chunks]
        return _in_class_order(found, self._chunks)

    def _pass(self, context: Array, kept_bytes: float) -> "_Pass":
        return _Pass(self, self._tensor(context), kept_bytes)

    def _head(self, given: Tensor) -> list[Tensor]:
        """What the classes share: nothing, the start mark, or the start mark and the context that stands before names.

        `given` is (L, w), shared by all classes, or (C, L, w).
        """
        if not self._text.shares_head:
            return []
        shared = [given[: self._before(given)]] if given.ndim == 2 else []
        return self._text.head(torch.cat([self._first, *shared]))

    def _unit(self, head: Sequence[Tensor], chunk: Chunk, given: Tensor) -> Tensor:
        """(n, d) unit features of a chunk; `given` is (L, w), shared by all classes, or (n, L, w)."""
        n, before, alone = len(chunk.classes), self._before(given), given.ndim == 3
        given = given.expand(n, -1, -1)
        pieces = [chunk.names, given[:, before:], chunk.rests]
        if alone or not self._text.shares_head:
            pieces.insert(0, given[:, :before])
        if not self._text.shares_head:
            pieces.insert(0, self._first.expand(n, 1, -1))
        return functional.normalize(self._text.features(head, torch.cat(pieces, dim=1)), dim=1)

    def _before(self, given: Tensor) -> int:
        """How many embeddings of a context stand before the name."""
        length = given.shape[-2]
        return {"end": length, "middle": length // 2, "front": 0}[self._position]

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.array(array, np.float32)).to(self._device)

    def _checked(self, context: Array) -> Array:
        context = np.asarray(context, np.float32)
        classes, width = len(self._wording.class_names), self._first.shape[1]
        if context.ndim not in (2, 3) or context.shape[-2] < 1:
            raise TrimtabError(f"A context has the shape (L, w) or (classes, L, w), not {context.shape}.")
        if context.shape[-1] != width:
            raise TrimtabError(
                f"The context is {context.shape[-1]} wide, but the text tower of {self._encoder} is {width} wide; "
                "use a context that was learned with the same encoder."
            )
        if context.ndim == 3 and len(context) != classes:
            raise TrimtabError(
                f"The context is for {len(context)} classes, but there are {classes}; a class-specific context serves "
                "only the classes that it was learned with."
            )
        if not np.isfinite(context).all():
            raise TrimtabError("The context holds NaN or infinity; lower the learning rate, or learn it again.")
        self._wording.check_length(context.shape[-2], self._text.longest)
        return context


class _Pass:
    """A forward pass at one context, from which slopes can be pulled back any number of times.

    The graph is cut where the head meets the classes, so that each chunk is pulled back to the joints on its own, and
    then all of them together through the head.
    """

    def __init__(self, tower: PromptedTower, given: Tensor, kept_bytes: float) -> None:
        self._tower, self._given = tower, given.requires_grad_()
        self._head = tower._head(self._given)
        self._joints = [joint.detach().requires_grad_(joint.requires_grad) for joint in self._head]
        self._graphs: list[tuple[Tensor, Tensor]] = []
        head = self._head[0].shape[1] if self._head else 0
        for chunk in tower._chunks:
            own = chunk.names.shape[1] + chunk.rests.shape[1] + 1 + given.shape[-2] - head
            kept_bytes -= 4 * len(chunk.classes) * own * tower._text.kept_floats(head, own)
            if kept_bytes < 0:
                break
            self._graphs.append(self._forward(chunk))

    def back(self, slopes: Array) -> Array:
        """The gradient at the context."""
        gradient = torch.zeros_like(self._given)
        at_joints = [torch.zeros_like(joint) for joint in self._joints if joint.requires_grad]
        given_slopes = self._tower._tensor(slopes)
        for number, chunk in enumerate(self._tower._chunks):
            kept = number < len(self._graphs)
            features, own = self._graphs[number] if kept else self._forward(chunk)
            found = torch.autograd.grad(
                features,
                [own, *(joint for joint in self._joints if joint.requires_grad)],
                given_slopes[chunk.classes],
                retain_graph=kept,
                allow_unused=True,
            )
            if found[0] is not None:
                gradient[chunk.classes if gradient.ndim == 3 else ...] += found[0]
            for sum_, part in zip(at_joints, found[1:], strict=True):
                sum_ += part
        if at_joints:
            gradient += torch.autograd.grad(
                [joint for joint in self._head if joint.requires_grad], self._given, at_joints, retain_graph=True
            )[0]
        array: Array = gradient.cpu().numpy()
        return array

    def _forward(self, chunk: Chunk) -> tuple[Tensor, Tensor]:
        """The chunk's features, and the leaf for the context that stands among its own positions."""
        own = _of_classes(self._given.detach(), chunk).clone().requires_grad_()
        return self._tower._unit(self._joints, chunk, own), own


def _of_classes(given: Tensor, chunk: Chunk) -> Tensor:
    return given[chunk.classes] if given.ndim == 3 else given


def _in_class_order(found: Sequence[Tensor], chunks: Sequence[Chunk]) -> Array:
    features = torch.cat(list(found)).cpu().numpy()
    ordered: Array = np.empty_like(features)
    ordered[torch.cat([chunk.classes for chunk in chunks]).cpu().numpy()] = features
    return ordered


def _chunks(text: TextModel, wording: Wording, device: Any) -> Iterator[Chunk]:
    """The classes by the lengths of their names, so that nothing is padded."""
    lengths = [(len(name), len(rest)) for name, rest in zip(wording.names, wording.rests, strict=True)]
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    for (name, rest), members in groupby(by_length, key=lengths.__getitem__):
        alike, size = list(members), max(1, TOKENS_AT_ONCE // (name + rest))
        for first in range(0, len(alike), size):
            classes = alike[first : first + size]
            yield Chunk(
                torch.tensor(classes, device=device),
                text.embed(torch.tensor([wording.names[c] for c in classes], device=device)),
                text.embed(torch.tensor([wording.rests[c] for c in classes], device=device)),
            )
