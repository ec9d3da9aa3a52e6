"""Verdicts: why an image was learned from or not, and what is noted beside it."""

from enum import IntEnum

# Places in the details of a verdict.
NEAREST, TO_TEXT, BEYOND, APART = range(4)


class Verdict(IntEnum):
    """Why an image was learned from or not."""

    LEARNED = 0
    DUPLICATE = 1  # nearly one that was learned before
    STRANGE = 2  # far closer to the text than the stream's images are, or nearly as close to a text as to images
    QUOTA = 3  # its source has sent too many
    UNKNOWN = 4  # it shows none of the classes


# As compiled code knows them.
TO_LEARN, DUPLICATE, STRANGE, QUOTA, UNKNOWN = map(int, Verdict)
