"""AdaptiveClassifier: a stream in the manner of scikit-learn, which need not be installed.

    model = AdaptiveClassifier(encoder="lite", labels=["cat", "dog"])
    model.predict(images)          # zero-shot: there is nothing to fit
    model.partial_fit(images)      # adapts to them; nobody labels anything
    model.predict_proba(images)

It keeps scikit-learn's rules for parameters (`get_params`, `set_params`, `clone`) and its verbs. What needs labels, or
a `fit` to arbitrary numbers (cross-validation, grid search, most of `check_estimator`), has no meaning here: texts fix
the classes, and features must come from the encoder of those texts.
"""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab import arguments
from trimtab.classifier import Classifier, Picture
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.methods import make_method
from trimtab.methods.base import Method
from trimtab.registry import DEFAULT_METHOD
from trimtab.stream import Stream
from trimtab.task import Task


class AdaptiveClassifier:
    """A zero-shot classifier that adapts with `partial_fit`, on images or on features.

    Give `encoder` and `labels` for images (and their features), or a `task` for features alone. X is then a list of
    images, or an array (N, d) or (N, V, d). Nothing is built before it is needed, and `set_params` forgets what was
    learned, because it was learned with other parameters.
    """

    def __init__(
        self,
        task: Task | None = None,
        *,
        encoder: str | Encoder | None = None,
        labels: Sequence[str] | None = None,
        method: str | Method = DEFAULT_METHOD,
        templates: str | Sequence[str] = "photo",
        cupl: Mapping[str, Sequence[str]] | Path | str | None = None,
        views: int = 1,
        seed: int = 0,
    ) -> None:
        self.task = task
        self.encoder = encoder
        self.labels = labels
        self.method = method
        self.templates = templates
        self.cupl = cupl
        self.views = views
        self.seed = seed

    def partial_fit(self, X: ArrayLike | Sequence[Picture], y: object = None) -> Self:  # noqa: ARG002
        """Adapt to more images. `y` is there for scikit-learn's sake and is not looked at."""
        self._stream().run(self._features(X), keep_parts=False)
        return self

    def predict(self, X: ArrayLike | Sequence[Picture]) -> NDArray[np.str_]:
        """(N,) class names, with what has been learned so far; nothing is learned."""
        best: NDArray[np.str_] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return best

    def predict_proba(self, X: ArrayLike | Sequence[Picture]) -> NDArray[np.float32]:
        """(N, C) probabilities, in the order of `classes_`; nothing is learned."""
        stream, rows = self._stream(), self._features(X)
        found = [stream.predict(views).probabilities for views in rows]
        return np.stack(found) if found else np.empty((0, stream.task.classes), np.float32)

    @property
    def classes_(self) -> NDArray[np.str_]:
        """(C,) the class names."""
        return np.array(self._stream().task.class_names)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """The parameters by name, as they were given."""
        return {name: getattr(self, name) for name in _parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; what was learned with the old ones is forgotten."""
        for name in parameters:
            if name not in _parameters():
                raise TrimtabError(f"AdaptiveClassifier has no parameter {name!r}; it has {', '.join(_parameters())}.")
        for name, value in parameters.items():
            setattr(self, name, value)
        if parameters:
            vars(self).pop("stream_", None)
            vars(self).pop("classifier_", None)
        return self

    def __repr__(self) -> str:
        defaults = _parameters()
        changed = {name: value for name, value in self.get_params().items() if value is not defaults[name]}
        return f"AdaptiveClassifier({', '.join(f'{name}={arguments.shown(value)}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know of an estimator; it asks only where it is installed."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=True, three_d_array=True),
            requires_fit=False,
        )

    def _stream(self) -> Stream:
        if "stream_" not in vars(self):
            self.stream_ = self._new_stream()
        return self.stream_

    def _new_stream(self) -> Stream:
        if self.task is not None:
            if self.encoder is not None or self.labels is not None:
                raise TrimtabError("Give AdaptiveClassifier a task, or an encoder and labels, but not both.")
            arguments.instance("task", self.task, Task, "a trimtab.Task")
            chosen = make_method(self.method) if isinstance(self.method, str) else self.method
            return arguments.instance("method", chosen, Method, "a method's name or a method such as MCP()").start(
                self.task
            )
        if self.encoder is None or self.labels is None:
            raise TrimtabError("Give AdaptiveClassifier an encoder and labels for images, or a task for features.")
        self.classifier_ = Classifier(
            self.encoder,
            self.labels,
            method=self.method,
            templates=self.templates,
            cupl=self.cupl,
            views=self.views,
            seed=self.seed,
        )
        return self.classifier_.stream

    def _features(self, X: Any) -> Any:
        """(N, V, d) or (N, d): X itself if it holds features, else what the encoder makes of its images."""
        if _holds_images(X):
            if self.task is not None:
                raise TrimtabError("X must be features (N, d) or (N, V, d): a task alone cannot encode images.")
            self._stream()  # which makes the classifier
            found = self.classifier_.look_many(X)
            return np.stack(found) if found else np.empty((0, self.classifier_.task.dim), np.float32)
        rows = X if hasattr(X, "shape") else arguments.numbers("X", X)
        if len(rows.shape) not in (2, 3):
            raise TrimtabError(f"X must be images, or features of shape (N, d) or (N, V, d), not {rows.shape}.")
        return rows


def _holds_images(X: Any) -> bool:
    """Whether X is a list of images or bytes of several, and not an array of features."""
    if isinstance(X, np.ndarray):
        return X.dtype == np.uint8 and X.ndim == 4
    if isinstance(X, str | bytes | Path):
        raise TrimtabError(f"X must be a list of images; give [{arguments.shown(X)}].")
    if not isinstance(X, list | tuple) or not X:
        return False
    is_pixels = getattr(X[0], "dtype", None) == np.uint8
    return isinstance(X[0], str | bytes | Path) or hasattr(X[0], "getbands") or is_pixels


def _parameters() -> dict[str, Any]:
    """Every parameter's default by its name."""
    declared = inspect.signature(AdaptiveClassifier.__init__).parameters
    return {name: found.default for name, found in declared.items() if name != "self"}
