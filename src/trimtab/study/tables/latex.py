"""Tables for a paper: LaTeX with the booktabs package."""

from collections.abc import Sequence

from trimtab.study.tables.table import BETTER, FIRST, WORSE, Table

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "–": "--",
    BETTER: r"$^{\uparrow}$",
    WORSE: r"$^{\downarrow}$",
    FIRST: r"$^{\star}$",
}


def latex(tables: Sequence[Table]) -> str:
    """Tables as LaTeX; the preamble must use the package booktabs."""
    return "\n\n".join(_latex_table(table) for table in tables) + "\n"


def _latex_table(table: Table) -> str:
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(table.title)}. {' '.join(map(escaped, table.notes))}}}",
        rf"\begin{{tabular}}{{l{'r' * len(table.head)}}}",
        r"\toprule",
        _line([table.first, *table.head]),
        r"\midrule",
    ]
    quoted = False
    for row in table.rows:
        if row.quoted and not quoted:
            lines.append(r"\midrule")
            quoted = True
        cells = [rf"\textbf{{{escaped(cell.text)}}}" if cell.best else escaped(cell.text) for cell in row.cells]
        label = rf"\textit{{{escaped(row.label)}}}" if row.quoted else escaped(row.label)
        lines.append(" & ".join([label, *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


def escaped(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return "".join(_ESCAPES.get(letter, letter) for letter in text)
