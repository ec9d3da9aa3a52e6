"""What a table must say of figures that owe something to the labels of other data."""

from collections.abc import Iterable

from trimtab.encoders.prompted.context_files import TRAINED_ON
from trimtab.study.bench.record import Record


def notes_on_learned_prompts(records: Iterable[Record]) -> list[str]:
    """One note for each store whose text prototypes come from a learned context."""
    found = {(r.about.dataset, r.about.prompts) for r in records if TRAINED_ON in r.about.prompts}
    return [f"USES LABELS: the text prototypes of {dataset} are {prompts}." for dataset, prompts in sorted(found)]
