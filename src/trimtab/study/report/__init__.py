"""The report of a benchmark as files: tables and figures together."""

from trimtab.study.report.write import write_report

__all__ = ["write_report"]
