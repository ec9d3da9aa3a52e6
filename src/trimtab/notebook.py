"""How streams, predictions and tables look in a notebook: small HTML tables in which everything is escaped.

The functions read only public attributes, so this room knows none of the things that it shows.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

TOP = 5  # classes of a prediction that are shown
ROWS = 10  # images of many predictions that are shown


def html_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", notes: Iterable[str] = ()
) -> str:
    """A table with its title above it and notes below."""
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<div><table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def stream_html(stream: Any) -> str:
    """The method, what it classifies, what it has seen, and how full each of its caches is."""
    task, names = stream.task, stream.task.class_names
    shown = ", ".join(names[:TOP]) + (", ..." if len(names) > TOP else "")
    rows = [
        ("classes", f"{len(names):,}: {shown}"),
        ("dimensions", f"{task.dim:,}"),
        ("images seen", f"{stream.seen:,}"),
    ]
    for bank in stream.state.banks():
        for section, span in bank.sections.items():
            held = bank.occupied[:, span] > 0
            rows.append((f"{section} cache", f"{int(held.sum()):,} of {held.size:,} places taken"))
    rows += [(name, _short(value)) for name, value in stream.method.parameters().items()]
    return html_table(("stream", stream.method.name), rows)


def prediction_html(prediction: Any) -> str:
    """The most probable classes by their indices, with what each part says of them."""
    parts = prediction.parts
    best = np.argsort(-prediction.probabilities, kind="stable")[:TOP]
    rows = [
        (str(label), f"{prediction.probabilities[label]:.1%}", *(f"{part[label]:.4g}" for part in parts.values()))
        for label in best.tolist()
    ]
    left = len(prediction.probabilities) - len(best)
    notes = [f"{left:,} less probable classes are not shown."] if left else []
    return html_table(("class", "probability", *parts), rows, notes=notes)


def predictions_html(predictions: Any) -> str:
    """The first images, each with its class and the class that each part prefers."""
    parts, images = predictions.parts, len(predictions)
    rows = []
    for image in range(min(ROWS, images)):
        label = int(predictions.labels[image])
        favorites = [str(int(part[image].argmax())) for part in parts.values()]
        rows.append((str(image), str(label), f"{predictions.probabilities[image, label]:.1%}", *favorites))
    title = f"{images:,} predictions of {predictions.probabilities.shape[1]:,} classes"
    notes = [f"{images - ROWS:,} more images are not shown."] if images > ROWS else []
    return html_table(
        ("image", "class", "probability", *(f"{name}'s class" for name in parts)), rows, title=title, notes=notes
    )


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
