"""The text tower that belongs to a store: its encoder, loaded again by its name."""

from functools import lru_cache
from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.text_tower import TextTower


@lru_cache(maxsize=1)  # one per process: runs of a benchmark share it, and a second one would double the memory
def tower_of(encoder: str, fingerprint: str, class_names: tuple[str, ...], context: Path | None = None) -> TextTower:
    """The text tower of an encoder by its name, which must still have the fingerprint that the store remembers."""
    from trimtab.encoders import load_encoder
    from trimtab.encoders.prompted import text_tower

    try:
        found = load_encoder(encoder)
    except TrimtabError as error:
        raise TrimtabError(
            f"The method needs the text tower of the encoder that made the features, {encoder!r}, "
            f"which cannot be loaded here: {error}"
        ) from error
    if found.fingerprint != fingerprint:
        raise TrimtabError(
            f"The method needs the text tower of the encoder that made the features, but {encoder!r} has changed since "
            f"(fingerprint {found.fingerprint[:12]}, then {fingerprint[:12]}); encode again."
        )
    return text_tower(found, class_names, context=context)
