"""Class names as users give them on the command line."""

from pathlib import Path

from trimtab.errors import TrimtabError


def given_labels(labels: str | None, labels_file: Path | None) -> tuple[str, ...] | None:
    """The names in `cat,dog,...` or in a file with one per line; None if neither was given."""
    if labels is not None and labels_file is not None:
        raise TrimtabError("Give --labels or --labels-file, not both.")
    if labels is not None:
        return _checked([name.strip() for name in labels.split(",")], "--labels")
    if labels_file is None:
        return None
    try:
        lines = labels_file.expanduser().read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise TrimtabError(f"The labels file {labels_file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise TrimtabError(f"The labels file {labels_file} is not UTF-8 text; save it as UTF-8.") from None
    return _checked([line.strip() for line in lines], str(labels_file))


def _checked(names: list[str], where: str) -> tuple[str, ...]:
    kept = tuple(name for name in names if name)
    for name in kept:
        if not name.isprintable():  # bytes that are not UTF-8, too, are not printable
            raise TrimtabError(f"{where} holds {name!a}, which is not readable text; write it in UTF-8.")
    if len(kept) < 2:
        found = "only one class" if kept else "no class"
        hint = " Names in a file are given by --labels-file." if where == "--labels" else ""
        raise TrimtabError(f"{where} names {found}; a classifier needs at least two.{hint}")
    return kept
