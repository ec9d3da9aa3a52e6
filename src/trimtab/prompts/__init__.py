"""From class names to sentences, and from sentences to text prototypes."""

from trimtab.prompts.names import distinct_names, words_of
from trimtab.prompts.prototypes import text_prototypes
from trimtab.prompts.sentences import prompts_for, read_cupl
from trimtab.prompts.templates import TEMPLATE_SETS, templates_for

__all__ = [
    "TEMPLATE_SETS",
    "distinct_names",
    "prompts_for",
    "read_cupl",
    "templates_for",
    "text_prototypes",
    "words_of",
]
