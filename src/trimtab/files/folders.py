"""Where trimtab keeps what it makes once and uses often."""

import os
from pathlib import Path

import platformdirs

from trimtab.errors import TrimtabError


def cache_folder(*parts: str) -> Path:
    """A folder below the user's cache folder (or below $TRIMTAB_CACHE), created if missing."""
    root = os.environ.get("TRIMTAB_CACHE") or platformdirs.user_cache_dir("trimtab")
    folder = Path(root).expanduser().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrimtabError(
            f"The cache folder {folder} cannot be made ({error.strerror or error}); set TRIMTAB_CACHE to one that can."
        ) from error
    return folder
