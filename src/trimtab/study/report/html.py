"""One page that holds everything: tables, figures and notes, with nothing to fetch from anywhere."""

import base64
from collections.abc import Mapping, Sequence
from html import escape

from trimtab.study.tables.table import Table

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.87rem; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
tr.quoted { color: #777; font-style: italic; }
td.failed { color: #D55E00; }
p.note { color: #777; font-size: 0.82rem; margin: 0.3rem 0; }
p.warning { border-left: 4px solid #D55E00; padding-left: 0.7rem; font-weight: 600; }
figure { display: inline-block; margin: 0.5rem; max-width: 100%; }
figure img { max-width: 100%; background: white; }
"""


def html_page(
    tables: Sequence[Table], figures: Mapping[str, bytes], *, title: str = "trimtab report", warning: str = ""
) -> str:
    """A complete document; `figures` maps captions to PNG bytes."""
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>",
    ]
    if warning:
        parts.append(f'<p class="warning">{escape(warning)}</p>')
    parts += [_table(table) for table in tables]
    if figures:
        parts.append("<h2>Figures</h2>")
    parts += [_figure(caption, png) for caption, png in figures.items()]
    return "\n".join([*parts, "</body></html>", ""])


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in [table.first, *table.head])
    lines = [f"<h2>{escape(table.title)}</h2>", f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>']
    for row in table.rows:
        cells = [f"<td>{escape(row.label)}</td>"]
        for cell in row.cells:
            text = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
            cells.append(f'<td class="failed">{text}</td>' if cell.failed else f"<td>{text}</td>")
        opening = '<tr class="quoted">' if row.quoted else "<tr>"
        lines.append(f"{opening}{''.join(cells)}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join([*lines, *(f'<p class="note">{escape(note)}</p>' for note in table.notes)])


def _figure(caption: str, png: bytes) -> str:
    data = base64.b64encode(png).decode()
    return f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{data}"></figure>'
