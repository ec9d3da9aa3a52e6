"""Ablation studies: named questions, their runs on a store, and what these came to."""

from trimtab.study.ablations.findings import Ablation, Findings, Outcome, make_ablation
from trimtab.study.ablations.studies import STUDIES, Point, Study, study_by_name

__all__ = ["STUDIES", "Ablation", "Findings", "Outcome", "Point", "Study", "make_ablation", "study_by_name"]
