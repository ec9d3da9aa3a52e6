"""`trimtab classify`: your own pictures, one line each, adapting as it goes."""

import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from trimtab.cli.classify_lines import FORMATS, keep_odd_names, open_lines
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.classifier import Classifier

SECONDS_BETWEEN_SAVES = 30.0


def classify(
    paths: Annotated[
        list[str], typer.Argument(help="Images and folders of images; - reads paths from standard input.")
    ],
    labels: Annotated[str | None, typer.Option(help="What the images may show: cat,dog,...")] = None,
    labels_file: Annotated[Path | None, typer.Option(help="The same from a file, one a line.")] = None,
    encoder: Annotated[str, typer.Option("--encoder", "-e", help="Encoder, such as lite or hf:<folder>.")] = "lite",
    method: Annotated[str, typer.Option("--method", "-m", help="How to adapt; zero_shot does not.")] = "mcp",
    views: Annotated[int, typer.Option(min=1, help="Views per image: the plain one and random crops.")] = 1,
    templates: Annotated[str, typer.Option(help="Template set, template or file.")] = "photo",
    state: Annotated[Path | None, typer.Option(help="File that keeps what is learned; read if it exists.")] = None,
    format: Annotated[str, typer.Option("--format", "-f", help=f"{', '.join(FORMATS)}.")] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File for the lines.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many labels a line holds.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:<n> or mps.")] = "cpu",
    precision: Annotated[str, typer.Option(help="fp32, fp16 or bf16.")] = "fp32",
) -> None:
    """Classify images by names of your choice, one line each, getting better on the way; no labels, no training.

    With --state, what is learned is kept and used next time. Stopped while writing to --out, the same command goes on
    with the images that are not in the file yet. Files that cannot be read are named, and make the exit code 1.
    """
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
        classifier = Classifier(chosen, names, method=method, templates=templates, views=views)
        keeper = _StateKeeper(classifier, state)
        notes = Console(stderr=True, highlight=False)
        unreadable = 0
        before = signal.signal(signal.SIGTERM, _stop)
        try:
            for path in _with_bar(paths, notes, wanted=out is not None):
                if path in lines.already_there:
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


def _with_bar(paths: list[str], notes: Console, *, wanted: bool) -> Iterable[str]:
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

    def __init__(self, classifier: "Classifier", path: Path | None) -> None:
        self._classifier, self._path = classifier, path.expanduser() if path else None
        if self._path is not None and self._path.exists():
            classifier.load(self._path)
            Console(stderr=True, highlight=False).print(f"Going on from {classifier.seen} images learned before.")
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
