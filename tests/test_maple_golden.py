"""MaPLe and PromptAlign give what their authors' programs gave on a tiny CLIP (tests/golden/prompt)."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.prompt_golden import agreement_of

GOLDEN = Path(__file__).parent / "golden" / "prompt"
FILES = sorted([*GOLDEN.glob("maple_*.npz"), *GOLDEN.glob("promptalign_*.npz")])
MAPLE = {"tokens", "parameters", "features", "logits", "rates", "losses", "gradients", "steps", "answers"}
PROMPTALIGN = {"statistics", "logits", "losses", "views", "gradients", "parameters", "steps", "answers"}


def test_all_files_are_there():
    assert len(FILES) == 7


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_equals_the_authors_program(file):
    found = agreement_of(file)
    expected = PROMPTALIGN if file.name.startswith("promptalign") else MAPLE
    assert {agreement.quantity for agreement in found} == expected
    assert [agreement for agreement in found if not agreement.holds] == []
