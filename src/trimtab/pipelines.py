"""`trimtab.pipeline`: a classifier to be called like Hugging Face's, which gets better as it is called.

classify = trimtab.pipeline(model="lite", candidate_labels=["cat", "dog"])
classify("photo.jpg")              # [{"label": "cat", "score": 0.98}, {"label": "dog", "score": 0.02}]
classify(["a.jpg", "b.jpg"])       # one such list per image
"""

from collections.abc import Iterable, Sequence

import numpy as np

from trimtab import arguments
from trimtab.classifier import Classifier, Guess, Picture
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.methods.base import Method
from trimtab.registry import DEFAULT_METHOD

TASK = "zero-shot-image-classification"
ADDRESSES = ("http://", "https://", "ftp://", "s3://", "gs://")


def pipeline(
    task: str = TASK,
    model: str | Encoder = "lite",
    *,
    candidate_labels: Sequence[str],
    method: str | Method = DEFAULT_METHOD,
    hypothesis_template: str = "a photo of a {}.",
    views: int = 1,
    seed: int = 0,
    top_k: int | None = None,
) -> "ZeroShotImageClassification":
    """A callable that classifies images and adapts to them; `model` is an encoder's name, an encoder, or a hub's id.

    The arguments carry Hugging Face's names. Unlike there, the labels are fixed when the pipeline is made, because what
    is learned from the images is learned about these labels.
    """
    arguments.word("task", task, (TASK,))
    if isinstance(model, str) and ":" not in model and model != "lite":
        model = f"hf:{model}"  # "openai/clip-vit-base-patch16", as Hugging Face's users write it
    arguments.text("hypothesis_template", hypothesis_template)
    classifier = Classifier(
        model, candidate_labels, method=method, templates=[hypothesis_template], views=views, seed=seed
    )
    return ZeroShotImageClassification(classifier, top_k=top_k)


class ZeroShotImageClassification:
    """What `pipeline` gives: call it with an image, or with several."""

    def __init__(self, classifier: Classifier, *, top_k: int | None = None) -> None:
        self.classifier = arguments.instance("classifier", classifier, Classifier, "a trimtab.Classifier")
        self.top_k = None if top_k is None else arguments.whole("top_k", top_k, least=1)

    def __call__(
        self, images: Picture | Iterable[Picture], *, top_k: int | None = None
    ) -> list[Guess] | list[list[Guess]]:
        """Every label with its score (or the `top_k` best), best first: one list for an image, one each for several.

        An image is a path, a file's bytes, a Pillow image or an array of RGB bytes; several are a list of them. All are
        read before anything is learned, so that a call either teaches all its images or none.
        """
        wanted = self.top_k if top_k is None else arguments.whole("top_k", top_k, least=1)
        several = _several(images)
        given: list[Picture] = list(images) if several else [images]  # type: ignore[arg-type, list-item]
        for image in given:
            if isinstance(image, str) and image.lower().startswith(ADDRESSES):
                raise TrimtabError(f"{image} is an address, and trimtab fetches no images; save it to a file first.")
        found = [self.classifier.classify_features(rows, top=wanted) for rows in self.classifier.look_many(given)]
        return found if several else found[0]


def _several(images: object) -> bool:
    """Whether these are images, and not one."""
    if isinstance(images, np.ndarray):
        return images.ndim == 4
    return isinstance(images, Iterable) and not isinstance(images, str | bytes) and not hasattr(images, "getbands")
