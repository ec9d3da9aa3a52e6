"""The report of a benchmark: tables and figures together, in a notebook or as files."""

from trimtab.study.report.write import Report, write_report

__all__ = ["Report", "write_report"]
