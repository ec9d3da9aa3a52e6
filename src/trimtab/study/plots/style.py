"""One look for all figures: colors that color-blind readers can tell apart, shapes for those who print in gray."""

import io
from typing import TYPE_CHECKING, Any, Final

from trimtab.errors import TrimtabError
from trimtab.methods import info_of
from trimtab.study.outputs import made_by

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette. Yellow is left out: it cannot be read on white paper.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE, GRAY = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
    "#8C8C8C",
)
NOTE: Final = "#555555"
NOTE_LINE = 9.5  # points that a line of a note takes
_OTHERS: Final = ((GRAY, "h", "-."), (BLUE, "p", "-."), (GREEN, "8", "-."))
# Where each format names the program that made a file.
_MAKER: Final = {"png": "Software", "pdf": "Creator", "svg": "Creator"}


def look_of(method: str) -> tuple[str, str, str]:
    """(color, marker, line style): always the same for a method, whatever else is in the figure."""
    try:
        own = info_of(method).look
    except TrimtabError:  # a record of a method that is not installed here
        own = None
    return own or _OTHERS[sum(map(ord, method)) % len(_OTHERS)]


def axes_for(ax: "Axes | None", width: float = 5.2, height: float = 3.6) -> "Axes":
    """The axes given, or new ones in a figure of their own; made quiet either way."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(width, height), dpi=150, layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#DDDDDD", linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def entitle(ax: "Axes", title: str, *notes: str) -> None:
    """A title, and below it in small type what a reader must know to read the figure: one line for each note."""
    lines = [line for note in notes for line in note.splitlines()]
    ax.set_title(title, fontsize="medium", pad=6 + NOTE_LINE * len(lines))
    ax.annotate(
        "\n".join(lines),
        (0.5, 1.0),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7,
        color=NOTE,
        annotation_clip=False,
    )


def small_legend(ax: "Axes", **options: Any) -> None:
    """A legend that does not shout."""
    ax.legend(fontsize="small", title_fontsize="small", frameon=False, **options)


def as_bytes(ax: "Axes", kind: str = "png") -> bytes:
    """The whole figure around some axes, as a png, pdf or svg file that says it is trimtab's."""
    memory = io.BytesIO()
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig(memory, format=kind, metadata={_MAKER[kind]: made_by()})
    return memory.getvalue()
