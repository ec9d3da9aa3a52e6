"""LazyViews: how many views of an image are worth encoding. Ours; the papers encode all of them, always.

The plain view comes first. A closer look, a quarter of the views, is taken of images whose plain view is among the more
uncertain of the stream, and all views are encoded where the closer look speaks against the plain view. But only while
views have proved useful on this stream, which is found without labels:

* Now and then any image gets a closer look, as a sample.
* Where plain view and closer look name the same class, the image is remembered under it: the last 64 such images.
* Where they differ, the remembered images are the witness: is the plain view's feature nearer to those of the one class
  or of the other? Views are useful while the witness sides with them, by more than chance.

The budget is a bound: at no point of a stream have more views been encoded than `budget` per image.

What was not encoded is not invented: a method sees the encoded views, repeated in turn until there are as many as
`views` (`repeated`), so that its share of confident views is a share of them.
"""

import base64
import math
from typing import Any

import numpy as np

from trimtab import arguments
from trimtab.engine.arrays import Array
from trimtab.engine.equations import confident_views, entropy, softmax
from trimtab.errors import TrimtabError
from trimtab.task import Task

LAZY_NOTE = "lazy views"  # where a saved stream notes what lazy views know of it
CONFIDENT = 0.1  # the share of views that vote, as in the methods
REMEMBERED = 64
JUDGED_AT_FIRST = 16  # so many differences are judged before samples become rare
SAMPLE_AT_FIRST, SAMPLE_LATER = 4, 16  # one image in so many
MEMORY_OF_VERDICTS = 100  # differences; older verdicts fade

# Places in the array of figures.
SEEN, SPENT, LIMIT, GO_ON, FOR_VIEWS, FOR_PLAIN, JUDGED = range(7)


class LazyViews:
    """Decides image by image; what it knows of the stream changes with `take_in` alone."""

    def __init__(self, task: Task, views: int, budget: float) -> None:
        if not 1 <= arguments.number("view_budget", budget) <= views:
            raise TrimtabError(f"view_budget must be between 1 and the number of views, {views}, not {budget}.")
        self._task, self.views, self.budget = task, views, float(budget)
        self._closer = max(2, views // 4)
        self.reset()

    def reset(self) -> None:
        """Forget the stream."""
        self._figures = np.array([0.0, 0.0, 0.5 * math.log(self._task.classes), 0.5, 0.0, 0.0, 0.0])
        self._remembered = np.zeros((REMEMBERED, self._task.dim), np.float16)
        self._labels = np.full(REMEMBERED, -1, np.int64)
        self._kept = 0

    @property
    def views_per_image(self) -> float:
        """How many views were encoded, on average."""
        return float(self._figures[SPENT] / max(self._figures[SEEN], 1.0))

    @property
    def useful(self) -> bool:
        """Whether views have proved useful on this stream: by more than chance, that is one standard deviation."""
        for_views, for_plain = self._figures[FOR_VIEWS], self._figures[FOR_PLAIN]
        return bool(for_views - for_plain > math.sqrt(for_views + for_plain))

    def wanted(self, features: Array) -> int:
        """How many views of an image to encode in all, by (n, d) features of its first n; n if they are enough."""
        seen = len(features)
        next_step = self._closer if seen < self._closer else self.views
        credit = self.budget * (self._figures[SEEN] + 1) - self._figures[SPENT]
        if seen >= self.views or next_step > credit:
            return seen
        plain, label, voted = self._looked(features)
        if seen == 1:
            worth = (self.useful and plain > self._figures[LIMIT]) or self._is_sample
        else:
            worth = self.useful and voted != label
        return next_step if worth else seen

    def look(self, features: Array) -> Array:
        """Take in an image whose views are all encoded already; returns those that it would have had encoded."""
        features, seen = np.asarray(features, np.float32), 1
        while (wanted := self.wanted(features[:seen])) > seen:
            seen = wanted
        self.take_in(features[:seen])
        return features[:seen]

    def take_in(self, features: Array) -> None:
        """Count an image that was looked at: (n, d) features of the views that were encoded."""
        figures = self._figures
        plain, label, voted = self._looked(features)
        # The limit moves until as many images exceed it as the budget allows a closer look.
        closer_costs = self._closer - 1 + figures[GO_ON] * (self.views - self._closer)
        share = min((self.budget - 1) / closer_costs, 1.0)
        step = math.log(self._task.classes) * max(0.02, 1 / (figures[SEEN] + 2))
        figures[LIMIT] += step * (float(plain > figures[LIMIT]) - share)
        figures[SEEN] += 1
        figures[SPENT] += len(features)
        if len(features) < self._closer:
            return
        figures[GO_ON] += (float(voted != label) - figures[GO_ON]) / min(figures[SEEN] + 4, 100.0)
        if voted == label:
            self._remember(features[0], label)
        else:
            self._judge(features[0], label, voted)

    def _looked(self, features: Array) -> tuple[float, int, int]:
        """The entropy of the plain view, the class that it names, and the class that the confident views name."""
        probabilities = softmax(self._task.logit_scale * (features @ self._task.text_prototypes.T))
        entropies = entropy(probabilities)
        kept = confident_views(entropies[None], CONFIDENT)[0]
        return float(entropies[0]), int(probabilities[0].argmax()), int(probabilities[kept].mean(axis=0).argmax())

    @property
    def _is_sample(self) -> bool:
        often = SAMPLE_AT_FIRST if self._figures[JUDGED] < JUDGED_AT_FIRST else SAMPLE_LATER
        return bool((self._figures[SEEN] + 1) % often == 0)

    def _remember(self, feature: Array, label: int) -> None:
        self._remembered[self._kept % REMEMBERED] = feature
        self._labels[self._kept % REMEMBERED] = label
        self._kept += 1

    def _judge(self, feature: Array, label: int, voted: int) -> None:
        """Ask the remembered images which of the two classes the image is nearer to."""
        known = self._labels >= 0
        for_views, for_plain = self._labels == voted, self._labels == label
        if not (for_views.any() and for_plain.any()):
            return
        rows = self._remembered.astype(np.float32)
        center = rows[known].mean(axis=0)
        rows = rows - center
        cosines = rows @ (feature - center) / np.maximum(np.linalg.norm(rows, axis=1), np.float32(1e-6))
        figures = self._figures
        figures[FOR_VIEWS : FOR_PLAIN + 1] *= 1 - 1 / MEMORY_OF_VERDICTS
        figures[FOR_VIEWS if cosines[for_views].mean() > cosines[for_plain].mean() else FOR_PLAIN] += 1
        figures[JUDGED] += 1

    def copy(self) -> "LazyViews":
        """One that knows the same and goes its own way: for looking at images before they are taken in."""
        other = LazyViews(self._task, self.views, self.budget)
        other._figures, other._kept = self._figures.copy(), self._kept
        other._remembered, other._labels = self._remembered.copy(), self._labels.copy()
        return other

    def note(self) -> dict[str, Any]:
        """All that it knows, as facts that JSON can hold."""
        rows = base64.b64encode(self._remembered.tobytes()).decode()
        return {"figures": self._figures.tolist(), "labels": self._labels.tolist(), "kept": self._kept, "rows": rows}

    def recall(self, note: dict[str, Any] | None) -> None:
        """Know what a note says, or nothing if there is none: then the stream was seen without a budget before."""
        if note is None:
            self.reset()
            return
        try:
            figures = np.array(note["figures"], np.float64).reshape(self._figures.shape)
            labels = np.array(note["labels"], np.int64).reshape(self._labels.shape)
            rows = np.frombuffer(base64.b64decode(note["rows"]), np.float16).reshape(self._remembered.shape)
            kept = arguments.whole("kept", note["kept"], least=0)
        except (KeyError, TypeError, ValueError, OverflowError, TrimtabError):
            raise TrimtabError(
                "What the state notes of lazy views is not whole; leave out view_budget, or begin a new state."
            ) from None
        self._figures, self._labels, self._remembered, self._kept = figures, labels, rows.copy(), kept


def repeated(features: Array, views: int) -> Array:
    """(views, d): the encoded views, repeated in turn."""
    if len(features) < 1:
        raise TrimtabError("An image needs at least one view; the features hold none.")
    shown: Array = features[np.arange(views) % len(features)]
    return shown
