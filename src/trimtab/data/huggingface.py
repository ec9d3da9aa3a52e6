"""Data sets of the Hugging Face `datasets` library: from a folder saved with it, from its hub, or as an object."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from trimtab.data.base import LABEL_FIELDS, UNLABELED, ImageSet, numbered_labels
from trimtab.errors import TrimtabError
from trimtab.images.decode import decode
from trimtab.prompts.names import distinct_names

if TYPE_CHECKING:
    from datasets import Dataset

USUAL_SPLITS: Final = ("test", "validation", "val")


@dataclass(frozen=True, eq=False)
class HuggingFaceImages:
    """Images of one column, decoded as all others are."""

    rows: Any  # a datasets.Dataset whose image column is not decoded
    column: str
    enough: int | None = None  # as in `trimtab.images.decode`

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image `index` as (H, W, 3) RGB bytes."""
        stored = self.rows[index][self.column]
        return decode(stored["bytes"] if stored["bytes"] is not None else stored["path"], enough=self.enough)


def from_huggingface(source: "str | Path | Dataset", class_names: Sequence[str] | None = None) -> ImageSet:
    """The images and labels of "ID_OR_FOLDER" or "ID_OR_FOLDER@SPLIT", or of a `datasets.Dataset`.

    Without a split: test, else validation, else the only one. The first image column is taken, and for labels the
    first column of class labels or one with a usual name.
    """
    try:
        import datasets
    except ImportError:
        raise TrimtabError(
            'Hugging Face data sets need the datasets library: pip install "trimtab[datasets]".'
        ) from None
    rows = _opened(str(source)) if isinstance(source, str | Path) else source
    name = str(source) if isinstance(source, str | Path) else "dataset"
    image_columns = [key for key, feature in rows.features.items() if isinstance(feature, datasets.Image)]
    if not image_columns:
        raise TrimtabError(f"{name} has no image column; its columns are {', '.join(rows.features)}.")
    labels, names = _labels(rows, name, class_names)
    return ImageSet(
        name=Path(name.partition("@")[0]).name,
        class_names=names,
        labels=labels,
        ids=[str(index) for index in range(len(rows))],
        load=HuggingFaceImages(rows.cast_column(image_columns[0], datasets.Image(decode=False)), image_columns[0]),
    )


def _opened(source: str) -> "Dataset":
    import datasets

    place, _, split = source.partition("@")
    try:
        if Path(place).expanduser().is_dir():
            found = datasets.load_from_disk(str(Path(place).expanduser()))
        else:
            found = datasets.load_dataset(place)
    except Exception as error:  # the library raises what its many back ends raise
        first_line = str(error).strip().partition("\n")[0].rstrip(".")
        raise TrimtabError(f"The data set {place} cannot be opened by the datasets library: {first_line}.") from None
    if not isinstance(found, dict):
        return found
    wanted = (split,) if split else USUAL_SPLITS if len(found) > 1 else tuple(found)
    chosen = next((name for name in wanted if name in found), None)
    if chosen is None:
        first = next(iter(found))
        raise TrimtabError(f"{place} has the splits {', '.join(found)}; name one, as in hf:{place}@{first}.")
    return found[chosen]


def _labels(rows: "Dataset", name: str, class_names: Sequence[str] | None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    import datasets

    label_columns = [key for key, feature in rows.features.items() if isinstance(feature, datasets.ClassLabel)]
    if label_columns and class_names is None:
        codes = [UNLABELED if code is None else int(code) for code in rows[label_columns[0]]]
        return np.array(codes, dtype=np.int64), distinct_names(rows.features[label_columns[0]].names)
    column = next((key for key in (*label_columns, *LABEL_FIELDS) if key in rows.features), None)
    if column is None:
        return np.full(len(rows), UNLABELED, dtype=np.int64), tuple(class_names or ())
    written = ["" if label is None or label == UNLABELED else str(label) for label in rows[column]]
    return numbered_labels(written, class_names, name, [f"Row {index}" for index in range(len(rows))])
