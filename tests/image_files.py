"""Small real image files for tests that lay out data sets on disk."""

from pathlib import Path

from PIL import Image


def make_image(path: Path, color: tuple[int, int, int] = (200, 30, 30), size: tuple[int, int] = (12, 10)) -> Path:
    """A plain image of one color, in the format that the path's suffix names; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".webp": "WEBP"}[path.suffix.lower()]
    Image.new("RGB", size, color).save(path, format=kind)
    return path
