"""`trimtab classify`: your own pictures, one line each, adapting as it goes."""

import logging
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from trimtab.cli.classify_lines import FORMATS, keep_odd_names, open_lines
from trimtab.cli.options import Context, Device, Encoder, Labels, LabelsFile, Method, Precision, Views, choices
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from rich.console import Console

    from trimtab.classifier import Classifier

_log = logging.getLogger(__name__)

SECONDS_BETWEEN_SAVES = 30.0


def classify(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATHS", help="Images and folders of images; - reads paths from standard input."),
    ],
    labels: Labels = None,
    labels_file: LabelsFile = None,
    encoder: Encoder = "lite",
    method: Method = "mcp",
    views: Views = 1,
    templates: Annotated[str, typer.Option(help="Template set, template or file.")] = "photo",
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
    device: Device = "cpu",
    precision: Precision = "fp32",
) -> None:
    """Classify your images, getting better with each of them.

    The names are of your choice; nothing is labeled, nothing is trained. Each image gets one line. With --state, what
    is learned is kept and used next time; if a run with --state and --out is stopped, the same command continues with
    the images that are not in the file yet. Files that cannot be read are named, and make the exit code 1.
    """
    from rich.console import Console

    from trimtab.cli.labels import given_labels

    names = given_labels(labels, labels_file)
    if names is None:
        raise TrimtabError("Say what the images may show: --labels cat,dog,... or --labels-file FILE.")
    top = min(top, len(names))
    resuming = state is not None and state.expanduser().exists()
    with open_lines(format, out, top, max(map(len, names)), resuming) as lines:
        # Everything above is checked before the encoder, which may take seconds to load.
        from trimtab.classifier import Classifier
        from trimtab.encoders import load_encoder

        chosen = load_encoder(encoder, device=device, precision=precision)
        classifier = Classifier(chosen, names, method=method, templates=templates, context=context, views=views)
        notes = Console(stderr=True, highlight=False)
        keeper = _StateKeeper(classifier, state, notes)
        unreadable = 0
        before = signal.signal(signal.SIGTERM, _stop)
        try:
            for path in _with_bar(paths, notes, wanted=out is not None):
                if path in lines.already_there:
                    _log.debug("%s is already in %s", path, out)
                    continue
                try:
                    guesses = classifier.classify(path, top=top)
                except TrimtabError as error:
                    notes.print(str(error), soft_wrap=True, markup=False)
                    unreadable += 1
                    continue
                lines.write(path, guesses)
                keeper.save_sometimes()
        finally:
            signal.signal(signal.SIGTERM, before)
            keeper.save()
    notes.print(f"Classified: {lines.written}" + (f", unreadable: {unreadable}" if unreadable else ""))
    if unreadable:
        raise typer.Exit(1)


def _with_bar(paths: list[str], notes: "Console", *, wanted: bool) -> Iterable[str]:
    """The images, with a bar where no lines show that something happens."""
    if not (wanted and notes.is_terminal):
        return _images(paths)
    from rich.progress import track

    if "-" in paths:
        return track(_images(paths), "classifying", total=None, console=notes)
    return track(list(_images(paths)), "classifying", console=notes)


def _images(paths: list[str]) -> Iterator[str]:
    """Files as given, folders by what is in them, standard input line by line as it arrives."""
    from trimtab.data.folder import Listing

    for path in paths:
        if path == "-":
            keep_odd_names(sys.stdin)
            yield from (line.rstrip("\r\n") for line in sys.stdin if line.strip())
        elif Path(path).is_dir():
            listing = Listing()
            yield from (str(found) for found in listing.images(Path(path)))
            listing.say_what_was_skipped(Path(path))
        else:
            yield path


class _StateKeeper:
    """Reads the state once and writes it now and then, and at the end."""

    def __init__(self, classifier: "Classifier", path: Path | None, notes: "Console") -> None:
        self._classifier, self._path = classifier, path.expanduser() if path else None
        if self._path is not None and self._path.exists():
            classifier.load(self._path)
            notes.print(f"Continuing from {classifier.seen} images learned before.")
        self.save()  # now, so that a file that cannot be written is not noticed only at the end

    def save(self) -> None:
        if self._path is not None:
            self._classifier.save(self._path)
        self._saved = time.monotonic()

    def save_sometimes(self) -> None:
        if time.monotonic() - self._saved > SECONDS_BETWEEN_SAVES:
            self.save()


def _stop(*_: object) -> NoReturn:
    """A service manager's request to stop is as good as Ctrl-C: what was learned is saved."""
    raise KeyboardInterrupt
