"""A table as data: what the terminal, Markdown, LaTeX and HTML all show."""

from dataclasses import dataclass, field

from trimtab.notebook import html_table

BETTER, WORSE, FIRST = "▲", "▼", "★"  # marks of a cell


@dataclass(frozen=True)
class Cell:
    """One entry. `text` is complete; the rest says how to set it."""

    text: str
    best: bool = False
    failed: bool = False


@dataclass(frozen=True)
class Row:
    """A label and one cell per column; `quoted` rows are printed in a paper, not measured here."""

    label: str
    cells: list[Cell]
    quoted: bool = False


@dataclass(frozen=True)
class Table:
    """A title, column heads, rows and what a reader must know."""

    title: str
    head: list[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    first: str = "Method"  # the head of the labels' column

    def _repr_html_(self) -> str:
        rows = [[row.label, *(cell.text for cell in row.cells)] for row in self.rows]
        return html_table([self.first, *self.head], rows, title=self.title, notes=self.notes)
