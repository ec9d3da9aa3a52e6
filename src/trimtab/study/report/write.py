"""Writes a report in every form: Markdown, LaTeX, and one page with the figures inside."""

from pathlib import Path

from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.study.bench.results import Results
from trimtab.study.plots.catalog import FIGURES, as_bytes, draw
from trimtab.study.report.html import html_page
from trimtab.study.report.latex import latex
from trimtab.study.report.tables import report_tables
from trimtab.study.report.text import markdown

IN_PAGE = tuple(name for name in FIGURES if name != "features")  # that one runs a method again


def write_report(results: Results, folder: str | Path | None = None) -> list[Path]:
    """report.md, report.tex and report.html in a folder, by default that of the results; the files written."""
    target = Path(folder).expanduser() if folder is not None else results.folder
    target.mkdir(parents=True, exist_ok=True)
    tables = report_tables(results)
    warning = results.note
    page = html_page(tables, report_figures(results), title=f"trimtab: {results.folder.name}", warning=warning)
    contents = {
        "report.md": f"{warning}\n\n{markdown(tables)}" if warning else markdown(tables),
        "report.tex": (f"% {warning}\n" if warning else "") + latex(tables),
        "report.html": page,
    }
    for name, text in contents.items():
        write_whole(target / name, text.encode())
    return [target / name for name in contents]


def report_figures(results: Results) -> dict[str, bytes]:
    """Caption -> PNG of every figure that the records allow."""
    found = {}
    datasets = sorted({record.about.dataset for record in results.records if record.ok})
    for name in IN_PAGE:
        for dataset in datasets if FIGURES[name].one_dataset else [None]:
            try:
                axes = draw(name, results, dataset=dataset)
            except TrimtabError:
                continue  # too few data sets, or a method was not run: a page without that figure is still a page
            caption = FIGURES[name].about if dataset is None else f"{dataset}: {FIGURES[name].about}"
            found[caption] = as_bytes(axes)
    return found
