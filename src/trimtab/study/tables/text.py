"""Tables for the terminal and as Markdown."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from trimtab.study.tables.table import Table


def print_tables(tables: Sequence[Table], console: Console) -> None:
    """Show tables on a terminal."""
    for table in tables:
        shown = RichTable(table.first, *map(escape, table.head), title=escape(table.title), title_justify="left")
        for column in shown.columns[1:]:
            column.justify = "right"
        for row in table.rows:
            cells = [f"[bold]{cell.text}[/]" if cell.best else escape(cell.text) for cell in row.cells]
            shown.add_row(escape(row.label), *cells, style="dim" if row.quoted else None)
        console.print(shown)
        for note in table.notes:
            console.print(escape(note), style="dim", soft_wrap=True)
        console.print()


def markdown(tables: Sequence[Table]) -> str:
    """Tables as Markdown, each under a heading."""
    return "\n".join(_markdown_table(table) for table in tables)


def _markdown_table(table: Table) -> str:
    lines = [f"### {table.title}", "", _line([table.first, *table.head]), _line(["---", *["---:"] * len(table.head)])]
    for row in table.rows:
        label = f"*{row.label}*" if row.quoted else row.label
        lines.append(_line([label, *(f"**{cell.text}**" if cell.best else cell.text for cell in row.cells)]))
    return "\n".join([*lines, "", *(f"{note}\n" for note in table.notes)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
