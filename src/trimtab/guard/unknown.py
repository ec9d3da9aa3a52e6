"""Images that show none of the classes: a score without labels, and a threshold that the stream gives.

The score is the highest text cosine, plus what it has over the mean of all: 2 max - mean. An image of something else is
farther from every text, and prefers none. It does not depend on the logit scale, which maximal probability does.

Unknown images lie below the others, so what lies above the densest score is known, and tells how far scores spread: the
threshold lies FAR such deviations below. That calls a few percent of the known images unknown where all are known.
"""

import numpy as np

from trimtab.engine.arrays import Arrays, Doubles
from trimtab.guard.figures import HIGHEST, MEAN

WINDOW = 512  # images whose scores are kept
LEAST = 64  # images before anything is called unknown
UNKNOWN_AT_MOST = 0.4  # share of the images: the densest score is looked for above them
FAR = 2.0  # deviations below the densest score
SOFTNESS = 0.25  # of a deviation: how fast the probability of being unknown falls above the threshold

THRESHOLD, SCALE = range(2)  # places in the array of figures


class Unknown:
    """The last scores, and the threshold they give."""

    def __init__(self) -> None:
        self.scores: Doubles = np.zeros(WINDOW)
        self.figures: Doubles = np.array([-np.inf, 1.0])
        self.count = np.zeros(1, np.int64)

    def arrays(self) -> Arrays:
        """What is saved."""
        return {"scores": self.scores, "figures": self.figures, "count": self.count}

    def probabilities(self, figures: Doubles) -> Doubles:
        """(B,): how probably each image, by its admission figures, shows none of the classes."""
        beyond = (score_of(figures) - self.figures[THRESHOLD]) / (SOFTNESS * self.figures[SCALE])
        return 1 / (1 + np.exp(np.clip(beyond, -50, 50)))

    def take_in(self, figures: Doubles) -> None:
        """Remember the scores of images."""
        for score in score_of(figures):
            self.scores[self.count[0] % WINDOW] = score
            self.count += 1

    def renew(self) -> None:
        """Find the threshold in the last scores."""
        known = np.sort(self.scores[: min(int(self.count[0]), WINDOW)])
        if len(known) < LEAST:
            return
        middle = densest(known)
        above = known[known > middle]
        scale = max(float(np.sqrt(np.mean((above - middle) ** 2))) if len(above) else 0.0, 1e-9)
        self.figures[:] = middle - FAR * scale, scale


def score_of(figures: Doubles) -> Doubles:
    """(B,): high for an image of a known class."""
    return 2 * figures[:, HIGHEST] - figures[:, MEAN]


def densest(ordered: Doubles) -> float:
    """Where sorted scores lie closest together: the middle of the narrowest stretch that holds a third of the upper."""
    ordered = ordered[int(UNKNOWN_AT_MOST * len(ordered)) :]
    third = max(2, len(ordered) // 3)
    widths = ordered[third - 1 :] - ordered[: len(ordered) - third + 1]
    first = int(widths.argmin())
    return float(np.median(ordered[first : first + third]))
