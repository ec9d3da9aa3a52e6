"""Methods that predict in the parts text, prototype and retrieval, and a parameter that says how they are weighed."""

from dataclasses import dataclass

from trimtab.fusion import Fusion, FusionChoice, fusion_choice, new_fusion
from trimtab.methods.base import CacheMethod
from trimtab.task import Task


@dataclass(frozen=True, kw_only=True)
class WeighedMethod(CacheMethod):
    """A cache method with the parameter `fusion`.

    * `fusion`: "auto" (weights found from the stream, without labels), or one weight for each part, with which
      probabilities are summed as in the paper: alpha_1, alpha_2, alpha_3. # Eq. 5
    """

    fusion: FusionChoice = fusion_choice("auto")

    def __post_init__(self) -> None:
        super().__post_init__()
        new_fusion(self.fusion, self.parts, classes=2)  # refuses a wrong number of weights now rather than at the start

    def new_fusion(self, task: Task) -> Fusion:
        """What makes one prediction of the parts."""
        return new_fusion(self.fusion, self.parts, task.classes)
