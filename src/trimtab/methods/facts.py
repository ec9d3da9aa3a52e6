"""What is known of a method besides its formulas: a record that stands in the method's own file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Released = Mapping[str, Mapping[str, Any]]  # data set -> parameters
Templates = Mapping[str, str]  # data set -> a named set of templates

# The columns of the MCP paper's comparison of methods, and what each asks.
TRAITS: Final = {
    "Multimodal": "learns on the image side and on the text side",
    "HistInfo": "uses the images that came before",
    "NoEncGrad": "needs no gradient through an encoder",
    "NoExtraData": "needs no extra data or model",
    "HighEntro": "learns from uncertain images too",
    "ExpTestDist": "looks at how the test images are distributed",
}
FROZEN: Final = frozenset({"NoEncGrad", "NoExtraData"})  # what every method has that leaves the model alone
CACHE: Final = FROZEN | {"HistInfo"}

# Named sets of templates (trimtab.prompts) that the released programs agree on, by data set.
SPECIFIC_TEMPLATES: Final = {
    "dtd": "texture",
    "eurosat": "satellite",
    "fgvc-aircraft": "aircraft",
    "flowers102": "flower",
    "food101": "food",
    "oxford-pets": "pet",
    "ucf101": "action",
    **dict.fromkeys(("imagenet", "imagenet-a", "imagenet-v2"), "imagenet7"),
}
RENDITIONS: Final = ("imagenet-r", "imagenet-sketch")
EVERYDAY: Final = ("caltech101", "sun397", "stanford-cars")
IMAGENET_VARIANTS: Final = ("imagenet-a", "imagenet-v2", *RENDITIONS)
PAPER_SETS: Final = (*SPECIFIC_TEMPLATES, *RENDITIONS, *EVERYDAY)  # the 15 sets of the MCP paper


@dataclass(frozen=True)
class MethodInfo:
    """One row of the tables of methods."""

    title: str  # as papers and figures name it
    paper: str = ""
    year: int | None = None
    venue: str = ""
    keeps: str = ""
    gradients: bool = False  # whether it takes a gradient step per image (in closed form here)
    views: str = "optional"  # "one", "optional" or "several": what it makes of more than one view
    traits: frozenset[str] = FROZEN  # of TRAITS; the paper's where it has the method
    look: tuple[str, str, str] | None = None  # color, marker and line style in figures; None: drawn by lot

    @property
    def extra_data(self) -> bool:
        """Whether it needs data or models besides the encoder."""
        return "NoExtraData" not in self.traits
