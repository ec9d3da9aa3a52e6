"""`trimtab classify`: your own pictures, one line each, adapting as it goes."""

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from trimtab import arguments
from trimtab.cli.bench import changes_of_one
from trimtab.cli.classify_formats import FORMATS, line_format
from trimtab.cli.classify_lines import FiledLines, PrintedLines, given_names
from trimtab.cli.counting import counted
from trimtab.cli.interruption import CONTINUES, STARTS_OVER, say_if_interrupted
from trimtab.cli.options import (
    Changes,
    Context,
    Device,
    Encoder,
    Labels,
    LabelsFile,
    Method,
    Precision,
    ViewBudget,
    Views,
    choices,
)
from trimtab.errors import TrimtabError
from trimtab.files import FileLock, say
from trimtab.interrupts import HoldInterrupts
from trimtab.registry import DEFAULT_METHOD

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.classifier import Classifier
    from trimtab.methods.base import Method as AnyMethod

_log = logging.getLogger(__name__)

SECONDS_BETWEEN_SAVES = 30.0

Work = TypeVar("Work")


def classify(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATHS", help="Images and folders of images; - reads paths from standard input."),
    ],
    labels: Labels = None,
    labels_file: LabelsFile = None,
    encoder: Encoder = "lite",
    method: Method = DEFAULT_METHOD,
    views: Views = 1,
    view_budget: ViewBudget = None,
    templates: Annotated[str | None, typer.Option(help="Template set, template or file; photo if not given.")] = None,
    context: Context = None,
    state: Annotated[
        Path | None, typer.Option(help="File that keeps what is learned; it is read if it exists.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format", "-f", help=f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}.", autocompletion=choices(*FORMATS)
        ),
    ] = "table",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File for the lines, instead of standard output.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many labels a line holds.")] = 1,
    unknown: Annotated[bool, typer.Option("--unknown", help="Let the answer be 'none of these'.")] = False,
    guard: Annotated[bool, typer.Option("--guard/--no-guard", help="Learn only from images that seem genuine.")] = True,
    device: Device = "cpu",
    precision: Precision = "fp32",
    change: Changes = None,
) -> None:
    """Classify your images, getting better with each of them.

    The names are of your choice; nothing is labeled, nothing is trained. Each image gets one line. With --state, what
    is learned is kept and used next time; if a run with --state and --out is stopped or killed, the same command
    continues where it was. Files that cannot be read are named, and make the exit code 1, or 2 if none can.

    \b
    Examples:
      trimtab classify photos/ --labels cat,dog,frog
      trimtab classify photos/ --labels cat,dog -f csv -o out.csv --state kept
      find /camera -name '*.jpg' | trimtab classify - --labels cat,dog -f jsonl
    """  # noqa: D301  (not a raw string: click looks for the character itself)
    # One image's products are small: more threads would only wait, on the cores that the encoder works on. NumPy reads
    # this when it is imported, which it has not been so far.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from rich.console import Console

    from trimtab.cli.labels import given_labels

    say_if_interrupted(_if_interrupted(state, out))
    names = given_labels(labels, labels_file)
    if names is None:
        raise TrimtabError("Say what the images may show: --labels cat,dog,... or --labels-file FILE.")
    top = min(top, len(names))
    shown = [*names, "none of these"] if unknown else names
    written_as = line_format(format, top, max(map(len, shown)))
    with _locked(state, out):
        lines = PrintedLines(written_as) if out is None else FiledLines(out, written_as, state)
        notes = Console(stderr=True, highlight=False)
        given = _GivenImages(paths)
        images = given.listed()
        # Everything above is checked before the encoder, which may take seconds to load.
        from trimtab.classifier import Classifier
        from trimtab.encoders import load_encoder

        chosen = load_encoder(encoder, device=device, precision=precision)
        classifier = Classifier(
            chosen,
            names,
            method=_method(method, change),
            templates=templates,
            context=context,
            views=views,
            view_budget=view_budget,
            guard=guard,
            unknown="auto" if unknown else None,
        )
        with HoldInterrupts() as interrupts, _kept(classifier, state, lines, notes) as keeper:
            new = ((path, None) for path in images if not lines.has(path))
            work: Iterator[tuple[str, bytes | None]] = chain(lines.unlearned, new)
            with closing(classifier.look_ahead(work, itemgetter(0))) as looked:
                # Images are looked at ahead; from here on each is learned, written and counted before the next.
                for (path, line), rows in given.shown(_interruptible(looked, interrupts), notes, bar=out is not None):
                    try:
                        if isinstance(rows, TrimtabError):
                            raise rows
                        guesses = classifier.classify_features(rows, top=top)
                    except TrimtabError as error:
                        notes.print(str(error), soft_wrap=True, markup=False)
                        given.unreadable += 1
                    else:
                        if line is None:
                            lines.write(path, guesses)
                    if line is not None:
                        lines.pass_over(line)
                    keeper.save_sometimes()
            given.refuse_none()
    notes.print(f"Classified: {lines.written}" + (f", unreadable: {given.unreadable}" if given.unreadable else ""))
    if given.unreadable or given.empty_folders:
        raise typer.Exit(1)


def _if_interrupted(state: Path | None, out: Path | None) -> str:
    """What an interrupt leaves: only lines in a file, with a state that covers them, can be continued."""
    if state is None and out is None:
        return f"{STARTS_OVER} (With --state and -o it would continue.)"
    if state is None:
        return f"Interrupted; lines stay in {out}, what was learned is lost. Delete {out} to start over."
    if out is None:
        return f"Interrupted; what was learned is kept in {state}. Run again with the images that have no line yet."
    return CONTINUES


def _method(name: str, settings: list[str] | None) -> "str | AnyMethod":
    """The method with the hyperparameters that are given for it."""
    from trimtab.methods import make_method

    given = changes_of_one(name, settings or [])
    return make_method(name, **given) if given else name


class _GivenImages:
    """The images that the paths mean: files as given, folders by what is in them, standard input as it arrives."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._piped = "-" in paths
        self._found = 0
        self.unreadable = self.empty_folders = 0

    def listed(self) -> Iterable[str]:
        """The images: a list, or as they come if some are named on standard input."""
        if self._piped:
            return self._images()
        images = list(self._images())
        self.refuse_none()
        return images

    def shown(self, work: Iterable[Work], notes: "Console", *, bar: bool) -> Iterable[Work]:
        """The same work, with a bar where no lines show that something happens."""
        if not (bar and notes.is_terminal):
            return work
        from rich.progress import track

        return track(work, "classifying", total=None if self._piped else self._found, console=notes)

    def refuse_none(self) -> None:
        """An error if there was no image at all, or none that could be read."""
        if not self._found:
            raise TrimtabError(f"There are no images in {', '.join(map(_named, self._paths))}.")
        if self.unreadable == self._found:
            raise TrimtabError("No image could be read; see above what is wrong with each.")

    def _images(self) -> Iterator[str]:
        for path in self._paths:
            before = self._found
            for image in self._images_of(path):
                self._found += 1
                yield image
            if self._found == before and len(self._paths) > 1:
                say(f"There are no images in {_named(path)}.")
                self.empty_folders += 1

    def _images_of(self, path: str) -> Iterator[str]:
        from trimtab.data.folder import Listing

        if path == "-":
            try:
                yield from (line.rstrip("\r\n") for line in given_names() if line.strip())
            except OSError as error:
                raise TrimtabError(f"Standard input cannot be read: {error.strerror or error}.") from None
        elif (place := arguments.place("PATHS", path)).is_dir():
            listing = Listing()
            yield from map(str, listing.images(place))
            listing.say_what_was_skipped(place)
        else:
            yield path


def _named(path: str) -> str:
    return "standard input" if path == "-" else path


class _StateKeeper:
    """Writes the state now and then, with a note of the lines that it covers."""

    def __init__(self, classifier: "Classifier", path: Path | None, lines: PrintedLines | FiledLines) -> None:
        self._classifier, self._path, self._lines = classifier, path.expanduser() if path else None, lines

    def load(self, notes: "Console") -> None:
        if self._path is not None and self._path.exists():
            self._classifier.load(self._path)
            if seen := self._classifier.seen:
                notes.print(f"Continuing from {counted(seen, 'image')} learned before.")

    def save(self) -> None:
        if self._path is not None:
            self._classifier.stream.note = self._lines.covered() or self._classifier.stream.note
            self._classifier.save(self._path)
        self._saved = time.monotonic()

    def save_sometimes(self) -> None:
        if time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES:
            self.save()


@contextmanager
def _kept(
    classifier: "Classifier", state: Path | None, lines: PrintedLines | FiledLines, notes: "Console"
) -> Iterator[_StateKeeper]:
    """The state read and the lines begun; at the end, however it comes, both are saved so that they agree."""
    keeper = _StateKeeper(classifier, state, lines)
    keeper.load(notes)
    failed = True
    try:
        lines.begin(classifier.stream.note)
        if lines.unlearned:
            again = counted(len(lines.unlearned), "image")
            notes.print(f"Learning again from the last {again}, because a kill came before a save.")
        keeper.save()  # now: a file that cannot be written is noticed, and from here on every line can be continued
        try:
            yield keeper
        finally:
            if not lines.lost_one:  # else the last save still fits the lines, and the next run continues from it
                keeper.save()
        failed = False
    finally:
        lines.close(failed=failed)


@contextmanager
def _locked(*files: Path | None) -> Iterator[None]:
    """Refuse to share a state or an output file with another process, or with each other."""
    wanted = [file for file in files if file is not None]
    if len({os.path.realpath(file.expanduser()) for file in wanted}) < len(wanted):
        raise TrimtabError(f"--state and --out are the same file, {wanted[0]}; choose two.")
    locks: list[FileLock] = []
    try:
        locks.extend(map(FileLock, wanted))
        yield
    finally:
        for lock in locks:
            lock.release(remove=True)


def _interruptible(work: Iterator[Work], interrupts: HoldInterrupts) -> Iterator[Work]:
    """The same, where an interrupt may come while the next item is waited for."""
    while True:
        with interrupts.welcome():
            item = next(work, None)
        if item is None:
            return
        yield item
