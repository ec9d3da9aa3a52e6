"""Prompt tuning against the authors' own programs, which were run on a tiny CLIP; see `golden_agreement --prompt`."""

from benchmarks.prompt_golden.files import agreement_of

__all__ = ["agreement_of"]
