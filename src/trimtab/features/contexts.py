"""The learned context that a store's text prototypes come from, kept beside them: prompt tuning starts there."""

import shutil
from pathlib import Path

from trimtab.storage import Folder, LocalFolder

NAME = "context"  # with the file's own ending: ours are .safetensors, released checkpoints anything


def keep_context(folder: Path, context: str | Path) -> None:
    """Copy a context file into a finished store."""
    source = Path(context).expanduser()
    shutil.copyfile(source, folder / (NAME + "".join(source.suffixes)))


def context_of(folder: Folder) -> Path | None:
    """The context file that a store keeps, if it was encoded with one; those behind a URL never are."""
    if not isinstance(folder, LocalFolder):
        return None
    return next((path for path in sorted(folder.path.glob(f"{NAME}.*")) if path.is_file()), None)
