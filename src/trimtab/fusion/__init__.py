"""How a prediction's parts become one: fixed, auto and oracle, never mixed in a table."""

from trimtab.fusion.auto import AutoWeights
from trimtab.fusion.weights import (
    ORACLE_GRID,
    FixedWeights,
    Fusion,
    FusionChoice,
    OracleWeights,
    fusion_choice,
    new_fusion,
    oracle_weights,
)

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
