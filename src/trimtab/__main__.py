"""`python -m trimtab` is the command `trimtab`: this is where both start."""

import sys

INTERRUPTED = 130


def run() -> None:
    """The command line, loaded here so that Ctrl-C in its first moments is as quiet as later."""
    try:
        from trimtab.cli.main import run as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    run()
