"""Tables and pages from the records of a benchmark."""

from trimtab.study.report.latex import latex
from trimtab.study.report.published import PUBLISHED, misprints
from trimtab.study.report.significance import Comparison, compare, mcnemar
from trimtab.study.report.tables import Table, accuracy_table, cost_table, quality_table, report_tables
from trimtab.study.report.text import markdown, print_tables
from trimtab.study.report.write import write_report

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
