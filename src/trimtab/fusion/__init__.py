"""How a prediction's parts become one: three ways, never mixed in a table.

* fixed: the paper's weighted sum of probabilities, with weights that somebody chose (`FixedWeights`);
* auto: weights found from the unlabeled stream itself (`AutoWeights`);
* oracle: weights searched on the TEST LABELS, as behind the papers' headline figures (`oracle_weights`).
"""

from trimtab.fusion.auto import AutoWeights
from trimtab.fusion.choice import Fusion, FusionChoice, fusion_choice, new_fusion
from trimtab.fusion.fixed import FixedWeights
from trimtab.fusion.oracle import ORACLE_GRID, OracleWeights, oracle_weights

__all__ = [
    "ORACLE_GRID",
    "AutoWeights",
    "FixedWeights",
    "Fusion",
    "FusionChoice",
    "OracleWeights",
    "fusion_choice",
    "new_fusion",
    "oracle_weights",
]
