"""JSON files that say what they are, and that nobody has changed since: a format, a version and a checksum.

The checksum is of the content, not of the layout: a file may be indented in another way, but no figure in it may
differ. It protects from accidents and from edited figures, not from somebody who computes it again.
"""

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.study.as_json import without_nan

Content = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Sealed:
    """One kind of file: what it is for people, and what to do if one cannot be read."""

    format: str
    version: int
    what: str  # "the record of a run"
    remedy: str  # "delete it and run the benchmark again"

    def write(self, path: Path, content: Content) -> None:
        """Write a file whole or not at all, in a folder that is created if missing."""
        whole = without_nan({"format": self.format, "version": self.version, **content})
        whole["checksum"] = checksum(whole)
        text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text.encode())
        except OSError as error:
            raise TrimtabError(
                f"{path} cannot be written: {error.strerror or error}; what was written before is kept, make room or "
                "choose another place with -o."
            ) from error

    def read(self, path: Path, shape: type[T]) -> T:
        """The content as a dataclass, or one sentence on why it cannot be trusted, with the file and the field."""
        content = self._content(path)
        for part in fields(shape):  # type: ignore[arg-type]  # every shape here is a dataclass
            if part.name not in content:
                raise self.damaged(path, part.name, "it is missing")
        try:
            found = msgspec.convert(content, shape)
        except msgspec.ValidationError as error:
            problem, _, place = str(error).partition(" - at ")
            raise self.damaged(path, place.strip("`").removeprefix("$").lstrip("."), _small(problem)) from None
        if checksum(content) != content.get("checksum"):
            raise TrimtabError(
                f"{path} is not as it was written (its checksum does not match), so it is not trusted; {self.remedy}."
            )
        return found

    def damaged(self, path: Path, field: str, problem: str) -> TrimtabError:
        """The sentence for a field that is not as it should be."""
        return TrimtabError(f"{path} is damaged at {field or 'its top'}: {problem}; {self.remedy}.")

    def _content(self, path: Path) -> Content:
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            raise TrimtabError(f"{path} cannot be read: {error.strerror or error}.") from None
        except (ValueError, RecursionError):
            raise TrimtabError(f"{path} is not JSON (cut off or damaged); {self.remedy}.") from None
        if not isinstance(content, dict) or content.get("format") != self.format:
            raise TrimtabError(f"{path} is not {self.what}; {self.remedy}.")
        if content.get("version") != self.version:
            raise TrimtabError(
                f"{path} has format {self.format} {content.get('version')}, this trimtab reads {self.version}; "
                f"use the version that wrote it, or {self.remedy}."
            )
        return content


def checksum(content: Content) -> str:
    """SHA-256 of the content with sorted keys and without spaces; its own checksum left out."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].replace("`", "")
