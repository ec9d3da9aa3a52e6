"""Tables and pages from the records of a benchmark."""

from trimtab.report.latex import latex
from trimtab.report.published import PUBLISHED, misprints
from trimtab.report.significance import Comparison, compare, mcnemar
from trimtab.report.tables import Table, accuracy_table, cost_table, quality_table, report_tables
from trimtab.report.text import markdown, print_tables
from trimtab.report.write import write_report

__all__ = [
    "PUBLISHED",
    "Comparison",
    "Table",
    "accuracy_table",
    "compare",
    "cost_table",
    "latex",
    "markdown",
    "mcnemar",
    "misprints",
    "print_tables",
    "quality_table",
    "report_tables",
    "write_report",
]
