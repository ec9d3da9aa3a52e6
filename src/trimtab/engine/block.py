"""Block: a few coming images as the text prototypes see them.

What an image's views say about the text does not depend on any cache, so it is computed for a whole block of images
with one matrix product. The images are then walked one at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.engine.arrays import Array, Doubles
from trimtab.engine.equations import confident_views, entropy, softmax
from trimtab.engine.kernels import row_entropies
from trimtab.engine.once import once
from trimtab.engine.products import dot, row_products
from trimtab.engine.under_text import Temper, UnderText, scaled_softmax
from trimtab.task import Task

Query = Literal["plain", "confident_mean"]

LEARNED, NOT_LEARNED = np.ones(1, np.bool_), np.zeros(1, np.bool_)  # from a single image, or not


@dataclass(eq=False)
class Block:
    """B images of V views each. View 0 is the plain image.

    `query` says what stands for an image when it meets the caches: its plain view, or the mean of its confident views
    (not normalized again; the released programs do so on ImageNet-A). `text` are the text prototypes that the images
    are seen under, where a method has moved them away from the task's.
    """

    task: Task
    views: Array  # (B, V, d), unit rows
    first: int  # position of the block's first image in the stream
    view_fraction: float = 0.1
    query: Query = "plain"
    text: Array | None = None  # (C, d), unit rows; None: the task's
    temper: Temper | None = None  # what finds the logit scale; None: it is the task's
    counted: NDArray[np.bool_] | None = None  # (B,): the images that have a say in it; None: all

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, row: int) -> "Image":
        return Image(self, range(len(self))[row])

    def __iter__(self) -> Iterator["Image"]:
        return (Image(self, row) for row in range(len(self)))

    @once
    def _cosines(self) -> Array:
        """(B, V, C): every view with every text prototype; made logits of in place by `_under_text`."""
        text = self.task.text_prototypes if self.text is None else self.text
        count, views, dim = self.views.shape
        if count == views == 1:
            one: Array = np.empty((1, 1, len(text)), np.float32)
            row_products(text, self.views[0, 0], one[0, 0])
            return one
        return (self.views.reshape(-1, dim) @ text.T).reshape(count, views, -1)

    @property
    def cosines(self) -> Array:
        """(B, V, C): every view with every text prototype; there until somebody asks for logits."""
        return self._cosines

    def take_cosines(self, cosines: Array) -> None:
        """The only view's products with the task's text prototypes, (C,), from whoever has multiplied them anyway."""
        if self._one_view and len(self) == 1 and self.text is None and "_cosines" not in vars(self):
            self._cosines = cosines.reshape(1, 1, -1).copy()

    @once
    def _under_text(self) -> UnderText:
        """All that the text says of the plain views, in one pass."""
        cosines, count = self._cosines, len(self)
        if self.temper is None:
            scales, after = np.full(count, self.task.logit_scale, np.float32), np.zeros((count, 3))
        else:
            self.temper.level.put_right(cosines)
            scales, after = self.temper.scales(cosines[:, 0], self.counted)
        probabilities: Array = np.empty((count, cosines.shape[2]), np.float32)
        entropies, labels = np.empty(count, np.float32), np.empty(count, np.intp)
        scaled_softmax(cosines, scales, probabilities, entropies, labels)
        logits = np.ascontiguousarray(cosines[:, 0])  # of one view they are the same numbers
        if self._one_view:  # all at once: at a step, looking up one after the other costs more than to compute them
            vars(self).update(logits=logits, probabilities=probabilities, entropies=entropies, labels=labels)
            vars(self).update(vote=probabilities, vote_entropies=entropies, vote_labels=labels)
        return UnderText(cosines, scales, after, logits, probabilities, entropies, labels)

    @property
    def view_logits(self) -> Array:
        """(B, V, C): every view against every text prototype."""
        return self._under_text.view_logits

    @property
    def logit_scales(self) -> Array:
        """(B,): what made logits of each image's cosines."""
        return self._under_text.scales

    @property
    def tempered(self) -> Doubles:
        """(B, 3): what the temper knows after each image."""
        return self._under_text.tempered

    @once
    def sure(self) -> Doubles | None:
        """(B,): how sure the answers up to each image should be on average; a method that knows better writes it here.

        To begin with, as sure as the text at the logit scale that the task states. None: the answers stay as they are.
        """
        return None if self.temper is None else self.tempered[:, -1].copy()

    @once
    def view_entropies(self) -> Array:
        """(B, V): the entropy of each view's prediction."""
        count, views, classes = self.view_logits.shape
        entropies = np.empty(count * views, np.float32)
        row_entropies(self.view_logits.reshape(-1, classes), entropies)
        return entropies.reshape(count, views)

    @property
    def _one_view(self) -> bool:
        """Whether the plain view is all there is: then every mean over views is what it says."""
        return self.views.shape[1] == 1

    @property
    def asks_plain(self) -> bool:
        """Whether the plain view stands for an image."""
        return self.query == "plain" or self._one_view

    @once
    def kept(self) -> NDArray[np.intp]:
        """(B, kept): the confident views, most confident first."""
        if self._one_view:
            return np.zeros((len(self), 1), dtype=np.intp)
        return confident_views(self.view_entropies, self.view_fraction)

    @once
    def kept_features(self) -> Array:
        """(B, kept, d): the features of the confident views."""
        return self.views if self._one_view else np.take_along_axis(self.views, self.kept[:, :, None], axis=1)

    @once
    def kept_logits(self) -> Array:
        """(B, kept, C): the logits of the confident views."""
        logits = self.view_logits
        return logits if self._one_view else np.take_along_axis(logits, self.kept[:, :, None], axis=1)

    @once
    def vote(self) -> Array:
        """(B, C): the mean prediction of the confident views."""
        if self._one_view:
            return self.plain_probabilities
        mean: Array = softmax(self.kept_logits).mean(axis=1)
        return mean

    @once
    def vote_entropies(self) -> Array:
        """(B,): the entropy of the vote."""
        return self._under_text.entropies if self._one_view else entropy(self.vote)

    @once
    def vote_labels(self) -> NDArray[np.intp]:
        """(B,): the class that the confident views vote for."""
        return self._under_text.labels if self._one_view else self.vote.argmax(axis=1)

    def leveled(self, cosines: Array) -> Array:
        """Cosines (..., C) with other texts, leveled in place as the block's own are."""
        if self.temper is not None:
            self.temper.level.put_right(cosines)
        return cosines

    def slopes_before_leveling(self, slopes: Array) -> Array:
        """Slopes (..., C) along leveled cosines as slopes along the cosines themselves."""
        return slopes if self.temper is None else self.temper.level.pulled_back(slopes)

    @property
    def said_of_plain_views(self) -> tuple[Array, Array, Array, NDArray[np.intp]]:
        """Logits (B, C), logit scales (B,), probabilities (B, C) and labels (B,): what the text says of them."""
        under = self._under_text
        return under.logits, under.scales, under.probabilities, under.labels

    @property
    def plain_probabilities(self) -> Array:
        """(B, C): the zero-shot prediction of the plain view."""
        return self._under_text.probabilities

    @once
    def plain(self) -> Array:
        """(B, d): the plain views."""
        return np.ascontiguousarray(self.views[:, 0])

    @once
    def queries(self) -> Array:
        """(B, d): the feature that stands for each image."""
        if self.asks_plain:
            return self.plain
        mean: Array = self.kept_features.mean(axis=1)
        return mean

    @once
    def among(self) -> Array:
        """(B, B): the queries' products with each other."""
        if len(self) == 1:
            one: Array = np.empty((1, 1), np.float32)
            one[0, 0] = dot(self.queries[0], self.queries[0])
            return one
        return self.queries @ self.queries.T

    @once
    def logits(self) -> Array:
        """(B, C): the query against every text prototype."""
        if self.asks_plain:
            return self._under_text.logits
        mean: Array = self.kept_logits.mean(axis=1)
        return mean

    @once
    def probabilities(self) -> Array:
        """(B, C): softmax of the query's logits."""
        return self._under_text.probabilities if self.asks_plain else softmax(self.logits)

    @once
    def entropies(self) -> Array:
        """(B,): the entropy of the query's prediction."""
        return self._under_text.entropies if self.asks_plain else entropy(self.probabilities)

    @once
    def labels(self) -> NDArray[np.intp]:
        """(B,): the query's zero-shot class."""
        return self._under_text.labels if self.asks_plain else self.logits.argmax(axis=1)


@dataclass(frozen=True, eq=False, slots=True)
class Image:
    """One image of a block: the row that a method looks at."""

    block: Block
    row: int

    @property
    def position(self) -> int:
        """Its place in the whole stream, counted from 0."""
        return self.block.first + self.row

    @property
    def sure(self) -> float | None:
        """How sure the answers up to this one should be on average; see `Block.sure`."""
        return None if self.block.sure is None else float(self.block.sure[self.row])

    @property
    def feature(self) -> Array:
        """(d,): what stands for the image; see `Block.queries`."""
        return self.block.queries[self.row]

    @property
    def plain(self) -> Array:
        """(d,): its plain view."""
        return self.block.views[self.row, 0]

    @property
    def logits(self) -> Array:
        """(C,): its zero-shot logits."""
        return self.block.logits[self.row]

    @property
    def logit_scale(self) -> np.float32:
        """What makes logits of its cosines."""
        return np.float32(self.block.logit_scales[self.row])

    @property
    def probabilities(self) -> Array:
        """(C,): its zero-shot probabilities."""
        return self.block.probabilities[self.row]

    @property
    def entropy(self) -> float:
        """The entropy of its zero-shot prediction, in nats."""
        return float(self.block.entropies[self.row])

    @property
    def label(self) -> int:
        """Its zero-shot class."""
        return int(self.block.labels[self.row])

    @property
    def vote(self) -> Array:
        """(C,): the mean prediction of its confident views."""
        return self.block.vote[self.row]

    @property
    def vote_entropy(self) -> float:
        """The entropy of the vote, in nats."""
        return float(self.block.vote_entropies[self.row])

    @property
    def vote_label(self) -> int:
        """The class that its confident views vote for."""
        return int(self.block.vote_labels[self.row])
