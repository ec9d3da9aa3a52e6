"""Numbers of things in sentences."""


def counted(number: int, thing: str) -> str:
    """1, "image" -> "1 image"; 2,000 -> "2,000 images"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
