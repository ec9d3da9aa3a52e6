"""The one kind of error that a user can cause."""


class TrimtabError(ValueError):
    """Something the user gave is wrong: one sentence that says what, where, and what to do.

    The command line prints it without a traceback; in Python it is an ordinary `ValueError`.
    """
