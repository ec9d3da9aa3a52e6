"""`python -m trimtab` is the command `trimtab`."""

from trimtab.cli.main import run

run()
