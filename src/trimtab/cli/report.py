"""`trimtab report`: the tables of a benchmark, on the terminal and as files."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.cli.options import Json, Overwrite, Results

Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for report.md, .tex and .html; RESULTS if not given.")
]
Full = Annotated[
    bool, typer.Option("--full/--no-full", help="Also show calibration, cost and paired tests per data set.")
]


def report(
    results: Results, out: Out = None, full: Full = False, overwrite: Overwrite = False, json: Json = False
) -> None:
    """Show the tables of a benchmark, and write them to files.

    The files are Markdown, LaTeX and one HTML page. A damaged or edited record is left out and named, and makes the
    exit code 1.

    \b
    Examples:
      trimtab report results/
      trimtab report results/ --full -o paper/tables
      trimtab report results/ --json | jq '.figures[].accuracy'
    """  # noqa: D301
    from trimtab.cli.output import folder_for, show_json, table_console
    from trimtab.files import say
    from trimtab.study.bench import read_results
    from trimtab.study.report import write_report
    from trimtab.study.tables import accuracy_table, groups_of, print_tables, report_data, report_tables

    if out is not None:
        folder_for(out, "the report")
    found = read_results(results)
    written = write_report(
        found, out, overwrite=overwrite
    )  # before anything is shown: who reads it may stop reading at any line
    if found.note:
        say(found.note)
    if json:
        show_json({**report_data(found), "written": written})
    else:
        console = table_console()
        tables = report_tables(found) if full else [accuracy_table(group) for group in groups_of(found.records)]
        print_tables(tables, console)
        for path in written:
            console.print(f"written: {path}", soft_wrap=True)
    if found.refused:
        raise typer.Exit(1)
