"""`trimtab report`: the tables of a benchmark, on the terminal and as files."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Results

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for report.md, .tex and .html; RESULTS if not given.")
]
Full = Annotated[
    bool, typer.Option("--full/--no-full", help="Also show calibration, cost and paired tests per data set.")
]


def report(results: Results, out: Out = None, full: Full = False) -> None:
    """Show the tables of a benchmark, and write them to files.

    The files are Markdown, LaTeX and one HTML page.
    """
    from rich.console import Console

    from trimtab.study.bench import read_results
    from trimtab.study.report import write_report
    from trimtab.study.tables import accuracy_table, groups_of, print_tables, report_tables

    found = read_results(results)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # a file or a pipe has no width of its own
    if found.note:
        console.print(found.note, style="bold yellow", soft_wrap=True)
    tables = report_tables(found) if full else [accuracy_table(group) for group in groups_of(found.records)]
    print_tables(tables, console)
    for path in write_report(found, out):
        console.print(f"written: {path}", soft_wrap=True)
