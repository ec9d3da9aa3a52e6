"""Writes a report in every form: Markdown, LaTeX, and one page with the figures inside."""

from pathlib import Path

from trimtab import arguments
from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.study.bench.results import Results
from trimtab.study.figures import FIGURES, draw
from trimtab.study.plots import as_bytes
from trimtab.study.report.html import html_page
from trimtab.study.tables import latex, markdown, report_tables


def write_report(results: Results, folder: str | Path | None = None) -> list[Path]:
    """report.md, report.tex and report.html in a folder, by default that of the results; the files written."""
    arguments.instance("results", results, Results, "Results, as read_results gives")
    target = results.folder if folder is None else arguments.place("folder", folder)
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
    for name, kind in FIGURES.items():
        if kind.runs_again:
            continue
        for dataset in datasets if kind.one_dataset else [None]:
            try:
                axes = draw(name, results, dataset=dataset)
            except TrimtabError:
                continue  # too few data sets, or a method was not run: a page without that figure is still a page
            caption = kind.about if dataset is None else f"{dataset}: {kind.about}"
            found[caption] = as_bytes(axes)
    return found
