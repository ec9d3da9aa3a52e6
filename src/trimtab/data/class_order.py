"""A self-check for the field's classic accident: labels whose class order is not that of the class names."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError

SHARE_THAT_SOUNDS_RIGHT = 0.25  # of the agreement under the best renaming; a sound set reaches nearly all of it
CLEAR_EXCESS = 0.1  # how far that agreement must lie above what chance gives it


@dataclass(frozen=True)
class ClassOrder:
    """What the check found, as shares of the labeled images."""

    accuracy: float
    chance: float
    renamed: float  # agreement when the predicted classes may be renamed one to one (a greedy, so a lower bound)
    renamed_by_chance: float  # the same with the labels shuffled among the images


def check_class_order(labels: ArrayLike, predictions: ArrayLike, class_names: Sequence[str]) -> ClassOrder:
    """Compare zero-shot predictions with labels; stop when only the classes' order can explain what is seen.

    Low accuracy alone may be an encoder that does not know the classes. But when the predictions agree well with the
    labels after renaming classes one to one, and hardly without, the labels belong to another order.
    """
    truth = arguments.class_indices("labels", labels)
    guess = arguments.class_indices("predictions", predictions)
    class_names = arguments.names("class_names", class_names)
    if truth.shape != guess.shape:
        raise TrimtabError(f"There are {len(truth)} labels but {len(guess)} predictions; give one each per image.")
    if (guess < 0).any():
        raise TrimtabError(f"A prediction is {guess.min()}; predictions are class indices from 0 on.")
    truth, guess = truth[truth >= 0], guess[truth >= 0]
    if len(truth) == 0:
        raise TrimtabError("The class order can only be checked on labeled images, and there are none.")
    classes = len(class_names)
    highest = max(truth.max(), guess.max())
    if highest >= classes:
        raise TrimtabError(f"A label or prediction is {highest}, but there are only {classes} class names.")
    shuffled = np.random.default_rng(0).permutation(truth)
    renamed, pairs = _best_renaming(truth, guess)
    frequency = np.bincount(truth, minlength=classes) * np.bincount(guess, minlength=classes) / len(truth) ** 2
    found = ClassOrder(
        accuracy=float((truth == guess).mean()),
        chance=float(frequency.sum()),
        renamed=renamed,
        renamed_by_chance=_best_renaming(shuffled, guess)[0],
    )
    excess = found.renamed - found.renamed_by_chance
    if excess > CLEAR_EXCESS and found.accuracy < SHARE_THAT_SOUNDS_RIGHT * found.renamed:
        label, prediction = next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])
        raise TrimtabError(
            f"The labels look shuffled: zero-shot accuracy is {found.accuracy:.1%} (chance {found.chance:.1%}), yet "
            f"{found.renamed:.0%} of the predictions agree once classes are renamed; images labeled "
            f"{class_names[label]!r} are mostly taken for {class_names[prediction]!r}. Check that labels and class "
            "names are in the same order (folder numbers sorted as text, or a subset counted in the full class list)."
        )
    return found


def _best_renaming(truth: NDArray[np.int64], guess: NDArray[np.int64]) -> tuple[float, list[tuple[int, int]]]:
    """The share that agrees when each label is paired with one prediction, largest cells first, and those pairs."""
    cells, counts = np.unique(np.stack([truth, guess]), axis=1, return_counts=True)
    taken_labels: set[int] = set()
    taken_guesses: set[int] = set()
    agreeing, pairs = 0, []
    for cell in np.argsort(-counts, kind="stable"):
        label, prediction = int(cells[0, cell]), int(cells[1, cell])
        if label not in taken_labels and prediction not in taken_guesses:
            taken_labels.add(label)
            taken_guesses.add(prediction)
            agreeing += int(counts[cell])
            pairs.append((label, prediction))
    return agreeing / len(truth), pairs
