"""One page that holds everything: contents, tables with their figures, and notes, and fetches nothing."""

import base64
from collections.abc import Sequence
from html import escape

from trimtab.study.outputs import made_by
from trimtab.study.report.sections import Picture, Section
from trimtab.study.tables.table import Table

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --quiet: #5f5f5f; --paper: #ffffff; --line: #d8d8d8; --link: #0b5cad;
  --alarm: #b34700; --band: #f6f6f6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --quiet: #a6a6a6; --paper: #161616; --line: #3d3d3d; --link: #7ab8f5; --alarm: #ff9d5c;
    --band: #1f1f1f; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); }
a { color: var(--link); }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.2rem; margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin-top: 2.2rem; }
h4 { font-size: 0.95rem; margin: 1.4rem 0 0.4rem; }
nav { background: var(--band); border-radius: 6px; padding: 0.6rem 1rem; margin: 1.2rem 0; }
nav h2 { font-size: 1rem; margin: 0; padding: 0; border: 0; }
nav ul { margin: 0.3rem 0; padding-left: 1.2rem; }
nav ul ul { display: flex; flex-wrap: wrap; gap: 0 1rem; list-style: none; padding-left: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.87rem; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
tr.quoted { color: var(--quiet); font-style: italic; }
td.failed { color: var(--alarm); }
p.note, p.facts, figcaption, footer { color: var(--quiet); font-size: 0.82rem; margin: 0.3rem 0; }
p.warning { border-left: 4px solid var(--alarm); padding-left: 0.7rem; font-weight: 600; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; margin: 1rem 0; }
figure { margin: 0; max-width: 100%; flex: 0 1 34rem; }
figure img { box-sizing: border-box; padding: 6px; background: white; border-radius: 6px; }
@media print { nav { display: none; } h2 { break-before: page; } figure, table { break-inside: avoid; } }
"""


def html_page(
    sections: Sequence[Section], *, title: str = "trimtab report", facts: Sequence[str] = (), warning: str = ""
) -> str:
    """A complete document; `facts` are lines below its title: what was run, when, and with what."""
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta name="generator" content="{escape(made_by())}">',
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
        *(f'<p class="facts">{escape(fact)}</p>' for fact in facts),
    ]
    if warning:
        parts.append(f'<p class="warning">{escape(warning)}</p>')
    parts += [_contents(sections), html_sections(sections), "</body></html>", ""]
    return "\n".join(parts)


def html_sections(sections: Sequence[Section]) -> str:
    """The sections alone, for a page or a notebook."""
    return "\n".join(_section(section, place) for place, section in _numbered(sections))


def _numbered(sections: Sequence[Section], above: str = "s") -> list[tuple[str, Section]]:
    """Each section with the name that the contents lead to."""
    return [(f"{above}{number}", section) for number, section in enumerate(sections, 1)]


def _contents(sections: Sequence[Section]) -> str:
    def items(found: Sequence[Section], above: str = "s") -> str:
        links = [
            f'<li><a href="#{place}">{escape(section.title)}</a>{items(section.below, place + "-")}</li>'
            for place, section in _numbered(found, above)
        ]
        return f"<ul>{''.join(links)}</ul>" if links else ""

    return f"<nav><h2>Contents</h2>{items(sections)}</nav>"


def _section(section: Section, place: str, level: int = 2) -> str:
    lines = [f'<section id="{place}"><h{level}>{escape(section.title)}</h{level}>']
    pictures: list[str] = []
    for block in section.blocks:
        if isinstance(block, Picture):
            pictures.append(_picture(block))
            continue
        lines += [*_beside(pictures), _table(block, section.title, level + 1)]
        pictures = []
    lines += _beside(pictures)
    lines += [_section(below, name, level + 1) for name, below in _numbered(section.below, place + "-")]
    return "\n".join([*lines, "</section>"])


def _table(table: Table, above: str, level: int) -> str:
    """Its title is left out where it would only repeat the title of the section."""
    head = "".join(f"<th>{escape(name)}</th>" for name in [table.first, *table.head])
    title = [] if table.title == above else [f"<h{level}>{escape(table.title)}</h{level}>"]
    lines = [*title, f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>']
    for row in table.rows:
        cells = [f"<td>{escape(row.label)}</td>"]
        for cell in row.cells:
            text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
            cells.append(f'<td class="failed">{text}</td>' if cell.failed else f"<td>{text}</td>")
        opening = '<tr class="quoted">' if row.quoted else "<tr>"
        lines.append(f"{opening}{''.join(cells)}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join([*lines, *(f'<p class="note">{escape(note)}</p>' for note in table.notes)])


def _beside(pictures: list[str]) -> list[str]:
    """Figures that follow each other stand in one row where there is room."""
    return [f'<div class="figures">{"".join(pictures)}</div>'] if pictures else []


def _picture(picture: Picture) -> str:
    data, caption = base64.b64encode(picture.png).decode(), escape(picture.caption)
    image = f'<img alt="{caption}" style="max-width:100%" src="data:image/png;base64,{data}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
