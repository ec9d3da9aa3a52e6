"""What a stream refuses, each in one sentence; a server gives each kind a status of its own."""

from trimtab.errors import TrimtabError


class NoSuchStream(TrimtabError):
    """There is no stream of that name."""


class StreamExists(TrimtabError):
    """There is a stream of that name already."""


class NoSuchImage(TrimtabError):
    """Nothing is known of an image of that id."""


class NoSuchSnapshot(TrimtabError):
    """There is no snapshot of that name."""


class KeyReused(TrimtabError):
    """An idempotency key was used again for something else."""


class Frozen(TrimtabError):
    """The stream is frozen, and this would change it."""


class DiskFull(TrimtabError):
    """What was asked for cannot be written down, so it was not done."""


class Damaged(TrimtabError):
    """What a stream has written down is damaged. `kept` changes come before the damage."""

    kept = 0
