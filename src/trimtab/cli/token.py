"""`trimtab token`: a token for `trimtab serve`, shown once."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import choices


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; the server's log shows it.")],
    role: Annotated[
        str,
        typer.Option(help="classify, or admin.", autocompletion=choices("classify", "admin")),
    ] = "classify",
    streams: Annotated[str, typer.Option(help="The streams that it opens: a,b,... or * for all.")] = "*",
    out: Annotated[Path, typer.Option("--out", "-o", help="File of tokens, which is added to.")] = Path("tokens.json"),
) -> None:
    """Make a token for `trimtab serve --token-file`.

    The token is printed once; the file keeps only a hash of it. "classify" may send pictures and look at figures;
    "admin" may do everything. To withdraw a token, delete its entry from the file; a server that runs takes it over.

    \b
    Examples:
      trimtab token camera-3 --streams cars
      trimtab token me --role admin -o tokens.json
    """  # noqa: D301  (not a raw string: click looks for the character itself)
    from trimtab.serve.access import add_token

    print(add_token(out.expanduser(), name, role, [each.strip() for each in streams.split(",")]))
