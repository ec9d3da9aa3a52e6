"""How a method's images come: as features, or as pixels where it needs them."""

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from numpy.typing import ArrayLike

from trimtab.engine import inputs, pixels
from trimtab.errors import TrimtabError
from trimtab.task import Task


class Inputs(Protocol):
    """What comes into a stream, checked: `engine.inputs` for features, `engine.pixels` for pixels."""

    def one_image(self, views: ArrayLike, size: int) -> Any:
        """(1, V, ...)."""

    def stream_shape(self, features: Any, size: int) -> tuple[int, int]:
        """(images, views)."""

    def refuse_bad_rows(self, features: Any, size: int) -> None:
        """Before the first image is written."""

    def blocks(self, features: Any, size: int, at_once: int, head: int = 0, /) -> Iterator[Any]:
        """The stream, some images at a time, `head` of them first."""


def inputs_of(name: str, needs: Collection[str], task: Task) -> tuple[Inputs, int]:
    """How the images of a method come, and the size that they must have: a dimension, or the side of a picture."""
    if "pixels" not in needs:
        return inputs, task.dim
    if task.image_prompts is None:
        raise TrimtabError(
            f"{name} tunes prompts inside the image tower, so it needs images and an encoder "
            "maple:<file>+<encoder>; features are not enough."
        )
    return pixels, task.image_prompts.input_size
