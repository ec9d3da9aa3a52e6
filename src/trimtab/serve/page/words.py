"""How numbers, moments and sizes are written on the page: the filters of its templates."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

NOTHING = "–"


def count(number: float | None) -> str:
    """12,345"""
    return NOTHING if number is None else f"{int(number):,}"


def percent(share: float | None) -> str:
    """41.7 %"""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def points(difference: float) -> str:
    """+3.2: percentage points, with their sign"""
    return f"{100 * difference:+.1f}".replace("-", "−")


def size(count_of_bytes: float) -> str:
    """1.4 MB"""
    amount = float(count_of_bytes)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def iso(when: float) -> str:
    """2026-11-16T17:02:03+00:00"""
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds")


def ago(when: float | None) -> str:
    """5 min ago"""
    if when is None:
        return "never"
    seconds = max(0.0, time.time() - when)
    for unit, length in (("day", 86400), ("hour", 3600), ("min", 60)):
        if seconds >= length:
            amount = int(seconds // length)
            plural = "s" if amount != 1 and unit != "min" else ""
            return f"{amount} {unit}{plural} ago"
    return "just now"


def place(value: float, low: float, high: float) -> str:
    """Where a value lies between two others, for a drawing: 37.5%"""
    return f"{100 * min(1.0, max(0.0, (value - low) / (high - low))):.2f}%"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "ago": ago,
    "count": count,
    "iso": iso,
    "percent": percent,
    "place": place,
    "points": points,
    "size": size,
}
