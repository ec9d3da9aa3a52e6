"""Where trimtab keeps what it makes once and uses often."""

import os
from pathlib import Path

import platformdirs


def cache_folder(*parts: str) -> Path:
    """A folder below the user's cache folder (or below $TRIMTAB_CACHE), created if missing."""
    root = os.environ.get("TRIMTAB_CACHE") or platformdirs.user_cache_dir("trimtab")
    folder = Path(root).expanduser().joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
