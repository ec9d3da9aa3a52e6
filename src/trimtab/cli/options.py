"""Options and arguments that several verbs share, each declared once.

What only one verb takes is declared in that verb's file. Nothing heavy is imported here, since every `--help` reads it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer


def choices(*names: str) -> Callable[[str], list[str]]:
    """What a shell offers when a value is completed; the verbs themselves check what they are given."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def _method_names(incomplete: str) -> list[str]:
    from trimtab.methods import list_methods

    return choices(*list_methods())(incomplete)


# Every verb takes it, before or after the verb's name: see `trimtab.cli.main`.
Verbose = Annotated[
    int, typer.Option("--verbose", "-v", count=True, show_default=False, help="Log to stderr; -vv logs more.")
]

# Every verb that prints a table.
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text, and nothing else, on standard output.")]

# What is read.
Store = Annotated[Path, typer.Argument(metavar="FEATURES", help="A feature store made by `trimtab encode`.")]
Results = Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder written by `trimtab bench`.")]
Root = Annotated[
    Path | None,
    typer.Option(envvar="TRIMTAB_DATA", show_envvar=False, help="Folder that holds your data sets (or $TRIMTAB_DATA)."),
]
Labels = Annotated[str | None, typer.Option(help="What the images may show: cat,dog,...")]
LabelsFile = Annotated[Path | None, typer.Option(help="The same, from a file with one name per line.")]

# The encoder, and what it is shown.
Encoder = Annotated[
    str,
    typer.Option(
        "--encoder",
        "-e",
        help="Encoder: lite, hf:<folder>, openai:ViT-B/16, ...",
        autocompletion=choices("lite", "hf:", "openai:", "openclip:", "onnx:"),
    ),
]
Device = Annotated[
    str, typer.Option(help="cpu, cuda, cuda:<n> or mps.", autocompletion=choices("cpu", "cuda", "cuda:0", "mps"))
]
Precision = Annotated[
    str,
    typer.Option(help="fp32, fp16, bf16 or int8 (cpu).", autocompletion=choices("fp32", "fp16", "bf16", "int8")),
]
Views = Annotated[int, typer.Option(min=1, max=10_000, help="Views per image: the image itself, then random crops.")]
ViewBudget = Annotated[
    float | None,
    typer.Option(min=1, help="Encode crops only where worth it: at most so many views per image on average."),
]
Cupl = Annotated[Path | None, typer.Option(help="CuPL file: JSON of class name -> sentences.")]
Context = Annotated[
    Path | None, typer.Option(help="Context file of `trimtab learn coop`, or CoOp's own; instead of templates.")
]

# The method, and the stream it runs on.
Method = Annotated[
    str, typer.Option("--method", "-m", help="The method; see `trimtab methods`.", autocompletion=_method_names)
]
Changes = Annotated[list[str] | None, typer.Option("--set", help="A hyperparameter, such as keel.memory_slots=512.")]
OneWeighting = Annotated[
    str,
    typer.Option(
        help="How parts are weighted: fixed, auto or oracle (uses labels).",
        autocompletion=choices("fixed", "auto", "oracle"),
    ),
]

# What is written.
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Also replace files that trimtab did not write.")]

# Runs.
Workers = Annotated[int | None, typer.Option(help="Single-threaded processes; as many as cores if not given.")]
SkipExisting = Annotated[
    bool, typer.Option("--skip-existing/--redo", help="Keep the records that are there, or run everything again.")
]
Engine = Annotated[
    str, typer.Option(help="Where it runs: local, or ray (a cluster).", autocompletion=choices("local", "ray"))
]
Address = Annotated[
    str | None, typer.Option(help="Ray cluster: host:port, ray://host:port or auto; one of its own if not given.")
]


def on_ray(engine: str, address: str | None) -> bool:
    """Whether --engine says ray; an address alone says so, too."""
    from trimtab.errors import TrimtabError

    if engine not in ("local", "ray"):
        raise TrimtabError(f"--engine is local or ray, not {engine!r}.")
    return engine == "ray" or address is not None
