"""A report in every form: in a notebook, as Markdown, as LaTeX, and as one page with the figures inside."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import trimtab
from trimtab import arguments
from trimtab.study.bench.results import Results
from trimtab.study.outputs import made_by, refuse_foreign, write_outputs
from trimtab.study.report.html import html_page, html_sections
from trimtab.study.report.sections import sections_of
from trimtab.study.tables import latex, markdown, report_tables


@dataclass(frozen=True)
class Report:
    """The tables and figures of a benchmark. In a notebook it shows itself; `write` makes files of it."""

    results: Results

    def _repr_html_(self) -> str:
        return html_sections(sections_of(self.results))

    def page(self) -> str:
        """The HTML page."""
        title = f"trimtab: {self.results.folder.resolve().name}"
        return html_page(sections_of(self.results), title=title, facts=self._facts(), warning=self.results.note)

    def write(self, folder: str | Path | None = None, *, overwrite: bool = False) -> list[Path]:
        """report.md, report.tex and report.html in a folder, by default that of the results; the files written.

        A file of these names that trimtab has not written is refused before anything is written, unless `overwrite`.
        """
        target = Path(folder).expanduser() if folder is not None else self.results.folder
        paths = [target / name for name in ("report.md", "report.tex", "report.html")]
        for path in paths:
            refuse_foreign(path, overwrite=overwrite)
        tables, warning = report_tables(self.results), self.results.note
        texts = [
            f"<!-- {made_by()} -->\n\n" + (f"{warning}\n\n" if warning else "") + markdown(tables),
            f"% {made_by()}\n" + (f"% {warning}\n" if warning else "") + latex(tables),
            self.page(),
        ]
        contents = {path: text.encode() for path, text in zip(paths, texts, strict=True)}
        write_outputs(contents, overwrite=overwrite)
        return paths

    def _facts(self) -> list[str]:
        """Where the figures come from, so that a page can stand alone."""
        records = self.results.records
        days = sorted({record.finished[:10] for record in records if record.finished})
        when = f", finished {' to '.join(dict.fromkeys([days[0], days[-1]]))}" if days else ""
        made = sorted({record.versions["trimtab"] for record in records if "trimtab" in record.versions})
        by = f", with trimtab {', '.join(made)}" if made else ""
        now = datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
        return [
            f"Page made {now} by trimtab {trimtab.__version__}.",
            f"{len(records):,} records in {self.results.folder.resolve()}{when}{by}.",
        ]


def write_report(results: Results, folder: str | Path | None = None, *, overwrite: bool = False) -> list[Path]:
    """Write `Report(results)`; the files written."""
    arguments.instance("results", results, Results, "Results, as read_results gives")
    return Report(results).write(folder, overwrite=overwrite)
