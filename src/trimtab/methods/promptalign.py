"""PromptAlign: MaPLe's prompts follow one image, pulled towards the tokens of the data that they were learned on.

Paper: Abdul Samadh, Gani, Hussein, Khattak, Naseer, Khan, Khan, "Align Your Prompts: Test-Time Prompting with
Distribution Alignment for Zero-Shot Generalization", NeurIPS 2023.

    L = L_entropy + beta / (b - a) * sum over blocks l of (|mu_l - MU_l| + |var_l - VAR_l|) / 2

| paper | here |
|---|---|
| rho | `entropy_fraction`, `align_fraction` |
| beta | `align_weight` |
| MU, VAR of ImageNet | the file `source_stats`, made by `trimtab source-stats` |

The tuning itself needs the gradient of both towers, so it stands behind the encoder (`trimtab.image_prompts`). Nothing
is kept between images.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from trimtab.engine.arrays import Array
from trimtab.engine.block import Block, Image
from trimtab.engine.equations import softmax
from trimtab.engine.operations import Size
from trimtab.engine.parameters import Range, number, parameter, switch
from trimtab.engine.pixels import Pixels
from trimtab.engine.state import Nothing
from trimtab.errors import TrimtabError
from trimtab.image_prompts import Alignment
from trimtab.methods.base import Method
from trimtab.methods.facts import IMAGENET_VARIANTS, PAPER_SETS, MethodInfo, Released
from trimtab.source_stats import SourceStats
from trimtab.task import Task


@dataclass(frozen=True)
class FileName:
    """The path of a file, or nothing yet."""

    def problem(self, value: object) -> str | None:
        """What is wrong with a value, or None."""
        return None if isinstance(value, str) else f"must be {self}"

    def __str__(self) -> str:
        return "the path of a file"


class Source(Nothing):
    """The source statistics; they are read once and are no part of what a stream learns."""

    def __init__(self, statistics: SourceStats) -> None:
        self.statistics = statistics


class PixelBlock(Block):
    """Images that come as pixels; what the text would say of their features is not asked."""

    views: Any  # (B, V, size, size, 3) bytes


@dataclass(frozen=True, kw_only=True)
class PromptAlign(Method):
    """Prompt tuning with alignment of token statistics, on an encoder `maple:<file>+<encoder>`. Nothing is kept."""

    name: ClassVar[str] = "promptalign"
    parts: ClassVar[tuple[str, ...]] = ("tuned",)
    needs: ClassVar[frozenset[str]] = frozenset({"pixels"})
    info: ClassVar[MethodInfo] = MethodInfo(
        title="PromptAlign",
        paper="Align Your Prompts",
        year=2023,
        venue="NeurIPS",
        keeps="nothing",
        gradients=True,
        views="several",
        traits=frozenset({"Multimodal"}),
        look=("#7F3C8D", "v", ":"),
    )
    # The authors leave ImageNet out, since the prompts were learned on it; we give it the values of its variants.
    released_values: ClassVar[Released] = {
        dataset: {"learning_rate": 4e-2 if dataset in ("imagenet", *IMAGENET_VARIANTS) else 5e-4}
        for dataset in PAPER_SETS
    }

    source_stats: str = parameter(
        "",
        FileName(),
        symbol="MU, VAR",
        about="File of the source statistics, made by `trimtab source-stats` with the same encoder.",
    )
    learning_rate: float = number(
        5e-4, least=0, about="Of AdamW; released: 5e-4 across data sets, 4e-2 on the variants of ImageNet."
    )
    steps: int = parameter(
        1, Range(0, 1000, whole=True), symbol="K", about="Steps of AdamW per image; each costs a pass forward and back."
    )
    align_weight: float = number(
        100.0, least=0, symbol="beta", about="Weight of the alignment beside the entropy; 0 leaves entropy alone."
    )
    entropy_fraction: float = number(
        0.1, least=0, most=1, symbol="rho", about="Share of the views, the most confident, that the entropy is of."
    )
    align_fraction: float = number(
        0.1,
        least=0,
        most=1,
        about="Share of the views whose tokens are aligned; after the first step also the entropy's.",
    )
    first_block: int = parameter(0, Range(0, 1000, whole=True), about="The first block whose tokens are aligned.")
    last_block: int = parameter(
        3,
        Range(1, 1000, whole=True),
        about="Where the aligned blocks end. As in the released program, the last one used is two below this number.",
    )
    prompt_tokens: bool = switch(
        True,
        about="Whether the prompts' own places are aligned, as released. There a source made with the same prompts "
        "differs by rounding only, which becomes noise in the gradient; False leaves them out.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.last_block <= self.first_block:
            raise TrimtabError(
                f"PromptAlign: last_block must be above first_block ({self.first_block}), not {self.last_block}."
            )

    @property
    def rule(self) -> Alignment:
        """The parameters as the tuner takes them."""
        return Alignment(
            steps=self.steps,
            learning_rate=self.learning_rate,
            entropy_fraction=self.entropy_fraction,
            align_fraction=self.align_fraction,
            align_weight=self.align_weight,
            first_block=self.first_block,
            last_block=self.last_block,
            prompt_tokens=self.prompt_tokens,
        )

    def contents(self) -> dict[str, str]:
        """A hash of the source statistics, if they are given."""
        return {"source_stats": SourceStats.load(self.source_stats).fingerprint} if self.source_stats else {}

    def new_state(self, task: Task) -> Source:
        """The source statistics, after checking that they belong to the task's encoder."""
        if not self.source_stats:
            raise TrimtabError(
                "promptalign needs the statistics of its source data: make them with `trimtab source-stats DATA "
                "--encoder maple:<file>+<encoder> -o FILE`, and give source_stats=FILE."
            )
        statistics = SourceStats.load(self.source_stats)
        if task.image_prompts is not None:  # a stream without them has been refused
            task.image_prompts.check(statistics, self.source_stats, self.rule)
        return Source(statistics)

    def look(self, task: Task, views: Any, first: int, text: Array | None = None) -> Block:
        """The pixels as they are."""
        return PixelBlock(task, views, first, text=text)

    def observe(self, image: Image, state: Source) -> None:
        """Nothing is kept."""

    def predict(self, image: Image, state: Source) -> dict[str, Array]:
        """The plain view under prompts tuned on all views."""
        return {"tuned": softmax(self.logits(image, state))}

    def logits(self, image: Image, state: Source) -> Array:
        """(C,): the plain view under the tuned prompts."""
        prompts = image.block.task.image_prompts
        assert prompts is not None
        views: Pixels = image.block.views[image.row]
        return prompts.answer(views, self.rule, state.statistics)

    def operations(self, size: Size) -> float | None:
        """Each step's views and texts forward and back, then the tuned view and texts.

        The first pass of all views is every method's, and not counted.
        """
        if size.text_pass is None or size.image_pass is None:
            return None
        kept = max(1, int(size.views * max(self.entropy_fraction, self.align_fraction)))
        answers = size.products(size.views + self.steps * kept + 1, size.classes)
        last = size.image_pass + size.text_pass
        return self.steps * 3 * (kept * size.image_pass + size.text_pass) + last + answers
