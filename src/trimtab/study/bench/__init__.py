"""The benchmark: methods x stores x orders, one JSON file per run."""

from trimtab.study.bench.plan import Plan, Run, make_plan
from trimtab.study.bench.record import Record, read_record
from trimtab.study.bench.results import Results, read_results
from trimtab.study.bench.runner import execute
from trimtab.study.bench.workers import run_plan

__all__ = ["Plan", "Record", "Results", "Run", "execute", "make_plan", "read_record", "read_results", "run_plan"]
