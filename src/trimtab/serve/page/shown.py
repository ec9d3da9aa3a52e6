"""What the pages show of a stream: plain values, taken from a tenant, that templates write down."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from trimtab.serve.access import Role
from trimtab.serve.history import WINDOW
from trimtab.serve.page.words import NOTHING, count, percent
from trimtab.serve.records import Answer
from trimtab.serve.tenant import Tenant

CLASSES = 12  # in the class balance; the rest is counted
LATEST = 8  # bins of the history that "the latest images" means
TOP = 5

Shown = dict[str, Any]


def stream(tenant: Tenant, role: Role) -> Shown:
    """What every page of a stream says of it."""
    settings, snapshots = tenant.settings, tenant.snapshots()
    return {
        "name": settings.name,
        "mode": tenant.mode,
        "seen": tenant.summary()["seen"],
        "method": settings.method,
        "encoder": settings.encoder,
        "labels": settings.labels,
        "guard": settings.guard,
        "thumbnails": settings.thumbnails,
        "snapshot_every": settings.snapshot_every,
        "snapshots": snapshots,
        "last_snapshot": snapshots[0] if snapshots else None,
        "admin": role == "admin",
        "pictures": settings.thumbnails and role == "admin",  # they may show what only admins should see
        "trouble": tenant.trouble,
    }


def tiles(health: Mapping[str, Any], history: Mapping[str, Any]) -> list[Shown]:
    """The figures at the top; none of them is an accuracy."""
    latest = {name: history[name][-LATEST:] for name in ("agreement", "flips", "learned")}
    means = {name: fmean(values) if values else None for name, values in latest.items()}
    images = min(history["total"], LATEST * history["images_per_bin"])
    window = f"last {count(images)} images" if images else "no image yet"
    return [
        {"name": "Agreement", "value": percent(means["agreement"]), "hint": f"parts name one class; {window}"},
        {"name": "Flips", "value": percent(means["flips"]), "hint": f"not zero-shot's answer; {window}"},
        {"name": "Learned", "value": percent(means["learned"]), "hint": f"the rest was held back; {window}"},
        {"name": "Coverage", "value": percent(health.get("coverage")), "hint": "of the classes hold an image"},
        {
            "name": "Drift",
            "value": _three(health.get("drift")),
            "hint": "of the mean image from the first ones",
        },
        {"name": "Corrections", "value": count(history["corrections"]), "hint": "by people"},
    ]


def series(history: Mapping[str, Any]) -> Shown:
    """The lines of the charts: full bins, and shares as the mean of several bins, because one alone is mostly noise."""
    bins = len(history["seen"]) - bool(history["total"] % history["images_per_bin"])
    lines: Shown = {name: history[name][:bins] for name in ("seen", "drift", "collapse")}
    for name in ("agreement", "flips"):
        values = history[name][:bins]
        lines[name] = [fmean(values[max(0, end - LATEST) : end]) for end in range(1, bins + 1)]
    lines["images_per_point"] = LATEST * history["images_per_bin"]
    return lines


def balance(history: Mapping[str, Any]) -> Shown:
    """The classes' shares now, and of the first answers."""
    given, total = history["balance"], history["total"]
    rows = [
        {"label": label, "now": now, "first": first}
        for label, now, first in zip(given["labels"], given["now"], given["first"], strict=True)
    ]
    if len(rows) > CLASSES:
        rows = sorted(
            (row for row in rows if row["now"] or row["first"]), key=lambda row: -max(row["now"], row["first"])
        )
    shown, window = rows[:CLASSES], min(total, WINDOW)
    return {
        "rows": shown if total else [],
        "more": len(rows) - len(shown),
        "images": window,
        "first": window if total > window else 0,
        "scale": max((max(row["now"], row["first"]) for row in shown), default=1.0) or 1.0,
    }


def images(entries: Iterable[Mapping[str, Any]]) -> list[Shown]:
    """Answers that the stream gave, for cards and strips."""
    return [
        {
            **entry,
            "position": position_of(entry["id"]),
            "zero_shot": entry["zero_shot"]["label"],
            "zero_score": entry["zero_shot"]["score"],
            "parts": [(part, guess["label"]) for part, guess in entry["parts"].items()],
            "flip": entry["label"] != entry["zero_shot"]["label"],
        }
        for entry in entries
    ]


def position_of(image: str) -> int:
    """The position in the stream that an image's id tells, counted from 1 as people do."""
    return int(image.rpartition("-")[2]) + 1


def answer(found: Answer, labels: Sequence[str], *, learn: bool) -> Shown:
    """An answer to an image that somebody tried."""
    best = sorted(range(len(labels)), key=lambda label: -float(found.probabilities[label]))[:TOP]
    return {
        "label": "none of these" if found.unknown else found.label,
        "score": found.doubt if found.unknown else found.score,
        "zero_shot": found.zero_shot,
        "flip": found.flipped,
        "adapted": [{"label": labels[label], "score": float(found.probabilities[label])} for label in best],
        "parts": found.parts,
        "learned": found.learned,
        "asked_to_learn": learn,
        "why_not": found.why_not,
        "seen": found.seen,
    }


def _three(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"
