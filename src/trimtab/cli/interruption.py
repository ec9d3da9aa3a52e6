"""What is said after Ctrl-C: whether work is kept depends on the verb, and on what it was asked for."""

CONTINUES = "Interrupted; finished work is kept. Run the same command again to continue."
STARTS_OVER = "Interrupted; nothing is kept. Run the same command again to start over."

_sentence = "Interrupted."  # before a verb has begun


def say_if_interrupted(sentence: str) -> None:
    """From here on this is what an interrupt means."""
    global _sentence  # the signal may arrive anywhere, and ends the only command of this process
    _sentence = sentence


def interruption() -> str:
    """What an interrupt means now."""
    return _sentence
