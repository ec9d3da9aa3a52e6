"""Features that someone else has made, as an .npz file, into a store."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.features.store import FeatureStore


def import_npz(path: str | Path, out: str | Path | None = None, **details: Any) -> FeatureStore:
    """Turn an .npz file into a store in the folder `out`, or beside the file if none is given.

    The file holds `features`, `text` and `class_names`; and, where there are any, `labels`, `logit_scale`, `ids`, and
    `domains` (or `domain` numbers with `domain_names`). `details` go to `write_arrays`.
    """
    source = arguments.place("path", path)
    arrays = read_npz(source, "features", "text", "class_names")
    domains = arrays.get("domains")
    if domains is None and "domain" in arrays and "domain_names" in arrays:
        domains = _named_domains(source, arrays["domain"], arrays["domain_names"])
    scale = arrays.get("logit_scale", np.array(100.0))
    if scale.size != 1:
        raise TrimtabError(f"The array 'logit_scale' of {source} must hold one number, not {arguments.shown(scale)}.")
    given: dict[str, Any] = {
        "logit_scale": scale.item(),
        "ids": arrays.get("ids"),
        "domains": domains,
        "dataset": source.stem,
    } | details
    folder = arguments.place("out", out) if out is not None else source.with_suffix("")
    labels = arrays.get("labels")
    return FeatureStore.from_arrays(
        folder, arrays["features"], labels, arrays["text"], arrays["class_names"].tolist(), **given
    )


def _named_domains(source: Path, numbers: NDArray[Any], names: NDArray[Any]) -> NDArray[Any]:
    known = arguments.class_indices("domain", numbers)
    if names.ndim != 1 or (len(known) and not 0 <= known.min() <= known.max() < len(names)):
        raise TrimtabError(f"The array 'domain' of {source} must number the {names.size} names of 'domain_names'.")
    return names[known]


def read_npz(path: Path, *needed: str) -> Mapping[str, NDArray[Any]]:
    """Every array of a file, by name; a file that lacks one of the needed ones is refused."""
    arrays = _read(path)
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise TrimtabError(f"{path} has no array {missing[0]!r}; it holds {', '.join(sorted(arrays)) or 'nothing'}.")
    return arrays


def _read(path: Path) -> Mapping[str, NDArray[Any]]:
    try:
        if path.exists() and not zipfile.is_zipfile(path):
            raise TrimtabError(f"{path} is not an .npz file: cut off, or of another kind; write it with numpy.savez.")
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except TrimtabError:
        raise
    except FileNotFoundError:
        raise TrimtabError(f"There is no file {path}.") from None
    except OSError as error:
        raise TrimtabError(f"{path} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        if "allow_pickle" in str(error):
            why = "it holds Python objects, which could run code; save plain arrays (strings as dtype 'U')"
            raise TrimtabError(f"{path} is refused: {why}.") from None
        raise TrimtabError(f"{path} cannot be read as .npz: {error}.") from None
    except Exception as error:  # zipfile, zlib and NumPy each have their own ways to say "damaged"
        raise TrimtabError(f"{path} cannot be read as .npz: {error}.") from None
