"""Task: what stays fixed during a stream."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.image_prompts import ImagePrompts
from trimtab.text_tower import TextTower

UNIT_TOLERANCE = 1e-2  # float16 text features are unit only to about 1e-3


@dataclass(frozen=True, eq=False)
class Task:
    """A zero-shot classification task: the class names, one unit text prototype each, and the logit scale.

    Shapes: `text_prototypes` (C, d). Everything a method may assume about them is checked here, once. `text_tower` is
    for the methods that learn prompts, `image_prompts` for those that tune them inside the image tower; the others need
    no more than the prototypes.
    """

    class_names: Sequence[str]
    text_prototypes: NDArray[np.float32]
    logit_scale: float = 100.0
    text_tower: TextTower | None = field(default=None, repr=False)
    image_prompts: ImagePrompts | None = field(default=None, repr=False)
    fingerprint: str = field(init=False, repr=False)

    def __init__(
        self,
        class_names: Sequence[str],
        text_prototypes: ArrayLike,
        logit_scale: float = 100.0,
        text_tower: TextTower | None = None,
        image_prompts: ImagePrompts | None = None,
    ) -> None:
        names = arguments.names("class_names", class_names)
        text = _checked_text(names, text_prototypes)
        scale = arguments.positive("logit_scale", logit_scale, "; CLIP's is 100")
        object.__setattr__(self, "class_names", names)
        object.__setattr__(self, "text_prototypes", text)
        object.__setattr__(self, "logit_scale", scale)
        object.__setattr__(self, "text_tower", text_tower)
        object.__setattr__(self, "image_prompts", image_prompts)
        learning = [part.fingerprint for part in (text_tower, image_prompts) if part is not None]
        object.__setattr__(self, "fingerprint", _fingerprint(names, text, scale, learning))

    @property
    def classes(self) -> int:
        """The number of classes, C."""
        return len(self.class_names)

    @property
    def dim(self) -> int:
        """The number of feature dimensions, d."""
        return int(self.text_prototypes.shape[1])


def _checked_text(names: tuple[str, ...], text_prototypes: ArrayLike) -> NDArray[np.float32]:
    if len(names) < 2:
        raise TrimtabError(f"A task needs at least two classes; class_names holds {len(names)}.")
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise TrimtabError(f"class_names holds {repeated[0]!r} more than once; give every class a name of its own.")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinity, which is refused below
        text = arguments.numbers("text_prototypes", text_prototypes).astype(np.float32)
    if text.ndim != 2 or text.shape[1] < 1:
        raise TrimtabError(f"text_prototypes must have the shape (classes, dimensions), not {text.shape}.")
    if len(text) != len(names):
        raise TrimtabError(
            f"There are {len(names)} class names but {len(text)} text prototypes; give one prototype per class."
        )
    if not np.isfinite(text).all():
        row = int(np.flatnonzero(~np.isfinite(text).all(axis=1))[0])
        raise TrimtabError(f"The text prototype of {names[row]!r} (row {row}) holds NaN or infinity; encode it again.")
    norms = np.linalg.norm(text, axis=1)
    worst = int(np.argmax(np.abs(norms - 1)))
    if abs(norms[worst] - 1) > UNIT_TOLERANCE:
        raise TrimtabError(
            f"The text prototype of {names[worst]!r} (row {worst}) has length {norms[worst]:.4g}, not 1; "
            "divide each row by its length."
        )
    text /= norms[:, None]
    text.setflags(write=False)
    return text


def _fingerprint(names: tuple[str, ...], text: NDArray[np.float32], logit_scale: float, learning: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode() + b"\0")
    digest.update(np.float64(logit_scale).tobytes())
    digest.update(text.tobytes())
    for fingerprint in learning:
        digest.update(fingerprint.encode())
    return digest.hexdigest()
