"""TPT: the prompt tuned so that an image's confident views agree.

Paper: Shu, Nie, Huang, Yu, Goldstein, Anandkumar, Xiao, "Test-Time Prompt Tuning for Zero-Shot Generalization in
Vision-Language Models", NeurIPS 2022.

    theta = one AdamW step from the embeddings of "a photo of a" on H(mean of the confident views' predictions)

The prediction is the plain view's. The released program keeps int(0.1 V) views, none below ten; here at least one.
"""

from dataclasses import dataclass
from typing import ClassVar

from trimtab.methods.facts import MethodInfo
from trimtab.methods.prompt_tuning import PromptTuner


@dataclass(frozen=True, kw_only=True)
class TPT(PromptTuner):
    """Test-time prompt tuning. Nothing is kept between images."""

    name: ClassVar[str] = "tpt"
    info: ClassVar[MethodInfo] = MethodInfo(
        title="TPT",
        paper="Test-Time Prompt Tuning",
        year=2022,
        venue="NeurIPS",
        keeps="nothing",
        gradients=True,
        views="several",
        traits=frozenset({"NoExtraData"}),
        look=("#8C8C8C", "o", "-"),
    )
