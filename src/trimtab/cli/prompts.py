"""`trimtab prompts`: the sentences that a class really gets."""

import difflib
from typing import Annotated

import typer

from trimtab.cli.options import Cupl, Root

SHOWN = 3


def prompts(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or a folder of images.")],
    class_name: Annotated[list[str] | None, typer.Option("--class", help="Only this class; repeat for more.")] = None,
    templates: Annotated[
        str | None,
        typer.Option(help="Template set, method (tda, ...), template or file; the data set's own if not given."),
    ] = None,
    cupl: Cupl = None,
    root: Root = None,
) -> None:
    r"""Show the sentences that describe each class to the encoder.

    With --class, a data set of the paper need not be on disk: its templates are known by its name.

    \b
    Examples:
      trimtab prompts imagenet-r --class tench --templates tda
      trimtab prompts photos/ --cupl sentences.json
    """
    from trimtab.data.catalog import find_entry, load_dataset
    from trimtab.errors import TrimtabError
    from trimtab.prompts import prompts_for, templates_for

    entry = find_entry(data)
    if entry is not None and root is None and class_name:
        name, own, known = entry.name, entry.templates, class_name
    else:
        images = load_dataset(data, root)
        name, own, known = images.name, images.templates, list(images.class_names)
    if not known:
        raise TrimtabError(f"The images of {data} have no classes, so there are no prompts to show.")
    wanted = _known_as(class_name or known[:SHOWN], known, data)
    patterns = templates_for(own if templates is None else templates, name)
    for shown, sentences in prompts_for(wanted, patterns, cupl).items():
        described = f" and {len(sentences) - len(patterns)} from CuPL" if cupl is not None else ""
        typer.echo(f"{shown}: {len(patterns)} from templates{described}")
        for sentence in sentences:
            typer.echo(f"    {sentence}")
    if len(wanted) < len(known) and not class_name:
        typer.echo(f"... and {len(known) - len(wanted):,} more classes; --class NAME shows one.")


def _known_as(wanted: list[str], known: list[str], data: str) -> list[str]:
    """The wanted classes as the set spells them; case and underscores do not matter."""
    from trimtab.errors import TrimtabError
    from trimtab.prompts import words_of

    spelled = {words_of(name).casefold(): name for name in reversed(known)}
    for name in wanted:
        plain = words_of(name).casefold()
        if name not in known and plain not in spelled:
            near = difflib.get_close_matches(plain, spelled, n=1, cutoff=0.4)
            hint = f"; did you mean {spelled[near[0]]!r}?" if near else "."
            raise TrimtabError(f"{data} has no class {name!r}{hint}")
    return [name if name in known else spelled[words_of(name).casefold()] for name in wanted]
