"""Tables from the records of a benchmark: as data, and for the terminal, Markdown and LaTeX."""

from trimtab.study.tables.ablation import ablation_data, ablation_table
from trimtab.study.tables.accuracy import accuracy_table
from trimtab.study.tables.attack import attack_table
from trimtab.study.tables.changes import changed_images, side_by_side_data, side_by_side_tables
from trimtab.study.tables.data import comparison_data, report_data
from trimtab.study.tables.details import cost_table, quality_table, report_tables
from trimtab.study.tables.groups import Group, groups_of
from trimtab.study.tables.latex import latex
from trimtab.study.tables.published import PUBLISHED, misprints
from trimtab.study.tables.side_by_side import SideBySide, read_side, side_by_side
from trimtab.study.tables.significance import Comparison, compare, mcnemar
from trimtab.study.tables.table import Cell, Row, Table
from trimtab.study.tables.text import markdown, print_tables

__all__ = [
    "PUBLISHED",
    "Cell",
    "Comparison",
    "Group",
    "Row",
    "SideBySide",
    "Table",
    "ablation_data",
    "ablation_table",
    "accuracy_table",
    "attack_table",
    "changed_images",
    "compare",
    "comparison_data",
    "cost_table",
    "groups_of",
    "latex",
    "markdown",
    "mcnemar",
    "misprints",
    "print_tables",
    "quality_table",
    "read_side",
    "report_data",
    "report_tables",
    "side_by_side",
    "side_by_side_data",
    "side_by_side_tables",
]
