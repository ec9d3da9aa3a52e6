"""Classifier: images in, labels out, better as it goes."""

import logging
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trimtab import arguments
from trimtab.encoders.base import Encoder, image_prompts, image_rows, images_per_call
from trimtab.encoders.prompted import text_tower
from trimtab.errors import TrimtabError
from trimtab.guard.rules import Guard
from trimtab.images.decode import check_image, decode, rgb_bytes
from trimtab.images.views import check_view_options, enough_side, make_views
from trimtab.interrupts import HoldInterrupts
from trimtab.lazy_views import LAZY_NOTE, LazyViews, repeated
from trimtab.look_ahead import LookAhead, Rows
from trimtab.methods import make_method
from trimtab.methods.base import Method
from trimtab.prompts import text_prototypes
from trimtab.registry import DEFAULT_METHOD
from trimtab.stream import Stream
from trimtab.task import Task

_log = logging.getLogger(__name__)

Picture: TypeAlias = str | Path | bytes | NDArray[np.uint8] | Image.Image
Item = TypeVar("Item")
NONE_OF_THESE = "none of these"


class Guess(TypedDict):
    """One label and its probability, in the shape of Hugging Face's pipelines."""

    label: str
    score: float


class Classifier:
    """A zero-shot classifier that adapts to the images it is shown; nobody labels anything.

    `labels` are what images may show, in words; `templates` (the set "photo" if none are given) make sentences of
    them. `encoder` is a name ("lite", "hf:...") or an encoder; `method` a name or a method with parameters of your own
    ("zero_shot" does not adapt). With more `views`, random crops of each image
    are looked at as well; they depend on the image and the seed alone. With a `view_budget`, crops are encoded only
    where they seem worth it, never more views than that per image on average (`trimtab.lazy_views`). `context`, a file
    of `trimtab learn coop` or of CoOp's program, takes the place of the templates; it was trained on labels of other
    images. `guard` says what may be learned from (docs/guards.md); False leaves the method as it was published. With
    `unknown="auto"` an answer can be "none of these", and such images are not learned.
    """

    def __init__(
        self,
        encoder: str | Encoder,
        labels: Sequence[str],
        *,
        method: str | Method = DEFAULT_METHOD,
        templates: str | Sequence[str] | None = None,
        cupl: Mapping[str, Sequence[str]] | Path | str | None = None,
        context: Path | str | None = None,
        views: int = 1,
        view_budget: float | None = None,
        seed: int = 0,
        guard: bool | Guard = True,
        unknown: Literal["auto"] | None = None,
    ) -> None:
        check_view_options(views, seed)
        wanted = _guard(guard, unknown)
        self._asked = guard, unknown
        labels = arguments.names("labels", labels)
        if len(labels) < 2:
            raise TrimtabError(f"A classifier needs at least two labels, not {len(labels)}.")
        chosen = make_method(method) if isinstance(method, str) else method
        arguments.instance("method", chosen, Method, "a method's name or a method such as MCP()")
        if isinstance(encoder, str):
            from trimtab.encoders import load_encoder

            encoder = load_encoder(encoder)
        self.encoder = arguments.instance("encoder", encoder, Encoder, "an encoder's name or an encoder")
        self.views, self.seed = views, seed
        start = time.perf_counter()
        # A learned context is the text, whatever the method; a method that tunes it starts from it.
        learned = context is not None
        if learned and (templates is not None or cupl is not None):
            raise TrimtabError("A learned context takes the place of templates and CuPL; give one of them only.")
        templates = "photo" if templates is None else templates
        tower = text_tower(encoder, labels, context=context) if learned or "text_tower" in chosen.needs else None
        text = tower.features(tower.start) if learned and tower else text_prototypes(encoder, labels, templates, cupl)
        _log.info("%s: texts of %d labels encoded in %.1f s", encoder.name, len(labels), time.perf_counter() - start)
        self._by_pixels = "pixels" in chosen.needs
        self.task = Task(
            labels,
            text,
            encoder.logit_scale,
            text_tower=tower if "text_tower" in chosen.needs else None,
            image_prompts=image_prompts(encoder, labels, chosen.name) if self._by_pixels else None,
        )
        _warn_of_equal_texts(self.task)
        if view_budget is not None and self._by_pixels:
            raise TrimtabError(f"{chosen.name} looks at pixels and takes all views; leave out view_budget.")
        self.lazy = None if view_budget is None else LazyViews(self.task, views, view_budget)
        self.stream: Stream = chosen.start(self.task, wanted)

    def __repr__(self) -> str:
        method, classes = self.stream.method.name, self.task.classes
        return f"<Classifier: {self.encoder.name}, {method}, {classes:,} labels, {self.seen:,} seen>"

    @property
    def seen(self) -> int:
        """How many images it has adapted to."""
        return self.stream.seen

    def classify(self, image: Picture, *, top: int | None = None) -> list[Guess]:
        """Adapt to the image and say what it shows: every label with its probability (or the `top` ones), best first.

        `image` is a path, a file's bytes, a Pillow image, or an array of RGB bytes of shape (height, width, 3). One
        that cannot be read is refused before anything is learned from it.
        """
        if self.lazy is None:
            return self.classify_features(self.look(image), top=top)
        with self.stream._turn:  # two threads that look with the same credit would spend it twice
            return self.classify_features(self.look(image), top=top)

    def classify_many(
        self,
        images: Iterable[Picture],
        *,
        top: int | None = None,
        unreadable: Callable[[Picture, TrimtabError], object] | None = None,
    ) -> Generator[tuple[Picture, list[Guess]], None, None]:
        """Give each image with what `classify` would have said of it, in their order, as fast as the encoder is.

        While one image is taken in, others are read and encoded, a few batches ahead of the answers; `images` may be
        endless, and is walked by another thread. Where they come slowly, each is answered when it comes. Only images
        whose answers were asked for have been learned from: stop whenever you like.

        One that cannot be read is given to `unreadable` and passed over; without it, its error is raised at its turn.
        """
        if isinstance(images, str | bytes) or not isinstance(images, Iterable):
            raise TrimtabError(f"images must be several, such as a list of paths, not {arguments.shown(images)}.")
        arguments.callback("unreadable", unreadable)
        if top is not None:
            arguments.whole("top", top, least=1)
        return self._answers(images, top, unreadable)

    def _answers(
        self, images: Iterable[Picture], top: int | None, unreadable: Callable[[Picture, TrimtabError], object] | None
    ) -> Generator[tuple[Picture, list[Guess]], None, None]:
        with closing(self.look_ahead(images)) as looked:
            for image, found in looked:
                if not isinstance(found, TrimtabError):
                    yield image, self.classify_features(found, top=top)
                elif unreadable is None:
                    raise found
                else:
                    unreadable(image, found)

    def look_many(self, images: Iterable[Picture]) -> list[Rows]:
        """What `look` gives of each image, encoded in batches; the first that cannot be read is an error."""
        found = []
        with closing(self.look_ahead(images)) as looked:
            for _, rows in looked:
                if isinstance(rows, TrimtabError):
                    raise rows
                found.append(rows)
        return found

    def look_ahead(
        self, items: Iterable[Item], image_of: Callable[[Item], Any] | None = None
    ) -> Generator[tuple[Item, Rows | TrimtabError], None, None]:
        """What `look` gives of each item's image, or the error that it raises, some images ahead; nothing is learned.

        `image_of` says where an item has its image; without it, items are images.
        """
        image = image_of or (lambda item: item)
        return iter(
            LookAhead(
                items,
                lambda item: self._views(image(item)),
                None if self._by_pixels else self.encoder.encode_images,
                views=self.views if self.lazy is None else 1,
                images_per_call=images_per_call(self.encoder),
                closer=None if self.lazy is None else self._closer_ahead(image, self.lazy.copy()),
            )
        )

    def _closer_ahead(self, image_of: Callable[[Any], Any], lazy: LazyViews) -> Callable[[Any, Rows], Rows]:
        """Closer looks at images that were not taken in yet; `lazy` goes ahead as if they had been."""

        def closer(item: Any, rows: Rows) -> Rows:
            rows = self._look_closer(image_of(item), rows, lazy)
            lazy.take_in(rows)
            return rows

        return closer

    def look(self, image: Picture) -> NDArray[np.float32] | NDArray[np.uint8]:
        """What the method sees of an image: the features of its views, or their pixels where it needs them."""
        return self._views(image) if self._by_pixels else self.features(image)

    def classify_features(
        self, features: NDArray[np.float32] | NDArray[np.uint8], *, top: int | None = None
    ) -> list[Guess]:
        """The same for what `look` gave: the part that learns, wholly or not at all."""
        if top is not None:
            arguments.whole("top", top, least=1)
        if self.lazy is None:
            prediction = self.stream.step(features)
        else:
            rows = np.atleast_2d(arguments.numbers("features", features))
            with HoldInterrupts():
                prediction = self.stream.step(repeated(rows, self.views))
                self.lazy.take_in(rows.astype(np.float32, copy=False))
        probabilities = prediction.probabilities * np.float32(1 - prediction.unknown)
        best_first = np.argsort(-probabilities, kind="stable")[:top]
        guesses = [Guess(label=self.task.class_names[c], score=float(probabilities[c])) for c in best_first]
        if prediction.unknown > 0.5:
            guesses = [Guess(label=NONE_OF_THESE, score=prediction.unknown), *guesses][:top]
        _log.debug("image %d: %s", self.seen, guesses[:1])
        return guesses

    def features(self, image: Picture) -> NDArray[np.float32]:
        """(V, d): the features of the image's views, with a `view_budget` of those worth it; nothing is learned."""
        rows = image_rows(self.encoder.encode_images, self._views(image))
        return rows if self.lazy is None else self._look_closer(image, rows, self.lazy)

    def _views(self, image: Any) -> NDArray[np.uint8]:
        """The views that are looked at first: all, or the plain one."""
        views = self.views if self.lazy is None else 1
        return make_views(self._pixels(image), self.encoder.input_size, views, self.seed)

    def _look_closer(self, image: Any, rows: NDArray[np.float32], lazy: LazyViews) -> NDArray[np.float32]:
        """The features of as many views as are worth it; the image is read again where these are more than given."""
        pixels: NDArray[np.uint8] | None = None
        while (wanted := lazy.wanted(rows)) > len(rows):
            pixels = self._pixels(image) if pixels is None else pixels
            further = make_views(pixels, self.encoder.input_size, wanted, self.seed, first=len(rows))
            rows = np.concatenate([rows, image_rows(self.encoder.encode_images, further)])
        return rows

    def _pixels(self, image: Any) -> NDArray[np.uint8]:
        if isinstance(image, (str, Path, bytes)):
            return decode(image, enough=enough_side(self.encoder.input_size))
        if isinstance(image, Image.Image):
            return rgb_bytes(image)
        return check_image(image)

    def save(self, path: str | Path) -> None:
        """Write what it has learned to a file; an older file stays whole if anything goes wrong."""
        if self.lazy is not None:
            self.stream.note = {**self.stream.note, LAZY_NOTE: self.lazy.note()}
        self.stream.save(path)
        _log.info("%s saved: %d images learned", path, self.seen)

    def load(self, path: str | Path) -> "Classifier":
        """Continue from what was saved by a classifier with the same encoder, labels, templates and method.

        What was saved keeps its own guard; one that was asked for and differs is refused.
        """
        saved = Stream.load(path, self.task, self.stream.method)
        _refuse_other_guard(path, saved.guard, *self._asked)
        if self.lazy is not None:
            self.lazy.recall(saved.note.get(LAZY_NOTE))
        self.stream = saved
        _log.info("%s loaded: %d images learned", path, self.seen)
        return self

    def copy(self) -> "Classifier":
        """An independent classifier that has learned the same: a snapshot to go back to. They share the encoder."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.stream = self.stream.copy()
        other.lazy = None if self.lazy is None else self.lazy.copy()
        return other

    __copy__ = copy

    def __deepcopy__(self, _: object) -> "Classifier":
        return self.copy()

    def cut(self) -> None:
        """Say that the next pictures have nothing to do with the last ones: another camera, another album.

        What was just there is otherwise expected again, as far as pictures have shown to come in runs.
        """
        self.stream.cut()

    def reset(self) -> None:
        """Forget everything learned."""
        self.stream.reset()
        if self.lazy is not None:
            self.lazy.reset()


def _warn_of_equal_texts(task: Task) -> None:
    """Tell of labels that the encoder reads alike ("hot dog" and "hot_dog"), unless one is numbered on purpose."""
    first: dict[bytes, str] = {}
    for name, row in zip(task.class_names, task.text_prototypes, strict=True):
        other = first.setdefault((row.round(5) + 0.0).tobytes(), name)  # + 0.0: -0 and 0 are one number
        if other != name and " #" not in name:
            _log.warning("The encoder reads %r and %r alike, so it cannot tell them apart; leave one out.", other, name)


def _refuse_other_guard(path: str | Path, saved: Guard | None, asked: bool | Guard, unknown: str | None) -> None:
    """A state keeps the guard that it was saved with: refuse it where another was asked for.

    Who asked for nothing gets what was saved: an older state keeps the defaults of its time.
    """
    if asked is False and saved is not None:
        raise TrimtabError(f"{path} was saved with a guard, and keeps it; leave out guard=False (--no-guard).")
    if unknown is not None and not (saved and saved.unknown):
        raise TrimtabError(
            f"{path} was saved by a classifier that never answers '{NONE_OF_THESE}', and so it stays; leave out "
            "unknown='auto' (--unknown), or begin a new state."
        )
    if isinstance(asked, Guard) and replace(asked, unknown=unknown is not None or asked.unknown) != saved:
        raise TrimtabError(f"{path} was saved with {saved or 'no guard'}; it cannot be used with {asked}.")


def _guard(guard: bool | Guard, unknown: str | None) -> Guard | None:
    if unknown not in (None, "auto"):
        raise TrimtabError(f"unknown must be 'auto' or None, not {arguments.shown(unknown)}.")
    chosen = Guard() if guard is True else guard or None
    if unknown is None or chosen is None:
        if unknown is not None:
            raise TrimtabError("unknown='auto' is one of the guards; leave guard on.")
        return chosen
    return replace(arguments.instance("guard", chosen, Guard, "a trimtab.Guard"), unknown=True)
