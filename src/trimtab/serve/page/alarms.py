"""Alarms: what a stream's guards and figures say, and what it means. Without labels none of it is sure."""

from collections.abc import Mapping, Sequence
from math import pi, sqrt
from statistics import median
from typing import Any, NamedTuple

from trimtab.serve.history import WINDOW

LEAST = 8  # bins of a series before its usual range is known
FAR = 4.0  # deviations from the usual
DEVIATION = 1.4826  # the standard deviation of a normal distribution, in median absolute deviations
LEAST_DRIFT = 0.02  # a smaller distance of means is none
BEYOND_CHANCE = 0.1  # by which class shares must differ more than chance explains
HARDLY_ANY = 0.05  # share of the latest images learned, below which a stream has as good as stopped learning


class Alarm(NamedTuple):
    """What fired and why. `kind` is "bad" or "warn"."""

    kind: str
    title: str
    text: str


REFUSED = {
    "duplicate": "nearly an image shortly before: a burst, a retry or a flood",
    "strange": "far closer to a text than the others, or than those like them, as crafted images are",
    "quota": "their source has sent too large a share",
    "unknown": "they seem to show none of the classes",
}


def alarms(health: Mapping[str, Any], history: Mapping[str, Any]) -> list[Alarm]:
    """What fired, the gravest first."""
    return sorted([*_guards(health), *_held_back(health, history), *_figures(history)], key=lambda alarm: alarm.kind)


def refused(health: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How many images each guard has held back, and why."""
    return [
        {"reason": reason, "images": images, "text": REFUSED.get(reason, "")}
        for reason, images in health.get("refused", {}).items()
    ]


def _guards(health: Mapping[str, Any]) -> list[Alarm]:
    found = []
    if health.get("fallen"):
        found.append(
            Alarm(
                "bad",
                "Zero-shot answers for now",
                "Runs of classes speak against most adapted answers; these return when they no longer do.",
            )
        )
    elif health.get("hurts"):
        found.append(
            Alarm(
                "warn",
                "Adapting may hurt",
                "Images come in runs of one class, and most answers that differ from zero-shot break them. Look at the "
                "flips, or check 50; freeze or roll back if they are wrong.",
            )
        )
    for name, title, text in (
        ("restarts", "Started over", "Much of what was learned would not be learned now, so all of it was forgotten"),
        ("returns", "Went back", "Zero-shot had to answer for long, so the last good state was put back"),
    ):
        if times := health.get(name, 0):
            found.append(Alarm("warn", title, f"{text}; {times} time{'s' * (times != 1)} so far."))
    return found


def _held_back(health: Mapping[str, Any], history: Mapping[str, Any]) -> list[Alarm]:
    latest, counts = history["learned"][-LEAST:], health.get("refused", {})
    if len(latest) < LEAST or sum(latest) / LEAST >= HARDLY_ANY or not any(counts.values()):
        return []
    reason = max(counts, key=counts.__getitem__)
    advice = (
        " A quota is for streams of many sources: where few are named, each reaches it in the first images. Name none, "
        "or make the stream with guard_parameters = {quota = 0}."
    )
    text = f"Guards held most of the latest images back. The most common reason so far: {REFUSED.get(reason, reason)}."
    return [Alarm("bad", "Hardly anything is learned", text + advice * (reason == "quota"))]


def _figures(history: Mapping[str, Any]) -> list[Alarm]:
    found = []
    if (fall := _unusual(history["agreement"], least=0.1, up=False)) is not None:
        found.append(
            Alarm(
                "warn",
                "Agreement has fallen",
                f"Its parts agree on {fall[0]:.0%} of the latest images; {fall[1]:.0%} is usual here. The images may "
                "have changed.",
            )
        )
    drifts = [value for value in history["drift"] if value is not None]
    if (rise := _unusual(drifts, least=LEAST_DRIFT, up=True)) is not None:
        found.append(
            Alarm(
                "warn",
                "The images have drifted",
                f"The mean image is {rise[0]:.3f} (1 - cosine) from that of the first images; {rise[1]:.3f} is usual.",
            )
        )
    distance, chance = _class_distance(history)
    if distance > 2 * chance + BEYOND_CHANCE:
        found.append(
            Alarm(
                "warn",
                "Other classes than at the start",
                f"{distance:.0%} of the answers would have to change for the classes of the first {WINDOW}; chance "
                f"alone makes about {chance:.0%}. Either other things are shown now, or the stream has collapsed.",
            )
        )
    return found


def _unusual(values: Sequence[float], *, least: float, up: bool) -> tuple[float, float] | None:
    """The mean of the last two values and the usual one, if it is far from it."""
    if len(values) < LEAST:
        return None
    now, usual = sum(values[-2:]) / 2, median(values)
    spread = DEVIATION * median(abs(value - usual) for value in values)
    away = now - usual if up else usual - now
    return (now, usual) if away > max(FAR * spread, least) else None


def _class_distance(history: Mapping[str, Any]) -> tuple[float, float]:
    """Total variation between the classes of the first answers and of the last; and what chance makes on average.

    Each share of n answers varies by p (1 - p) / n, so two of them differ by 2 sqrt(p (1 - p) / (pi n)) on average.
    """
    if history["total"] < 2 * WINDOW:
        return 0.0, 0.0
    pairs = list(zip(history["balance"]["first"], history["balance"]["now"], strict=True))
    chance = sum(sqrt(max(0.0, p * (1 - p)) / (pi * WINDOW)) for p in ((a + b) / 2 for a, b in pairs))
    return sum(abs(a - b) for a, b in pairs) / 2, chance
