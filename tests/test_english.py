"""One spelling, American, and no phrase that a native reader stumbles over."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STUMBLES = re.compile(
    r"colour|\bcentre|labelled|normalis|optimis|behaviour|favour|neighbour|catalogue|licen[c]e\b|recognis|vectoris"
    r"|(?<!There )is no folder|one a line|\bgoes on\b|made anew|\(1 views|told apart|\bspelt\b",
    re.IGNORECASE,
)
ALLOWED = {
    "src/trimtab/features/encoding.py": "centre square",  # part of every store's fingerprint
    "tests/test_cli.py": "labelled|centre|colour",  # the same check of the help texts
    "tests/test_english.py": "",
}
FILES = [
    *sorted(ROOT.glob("src/**/*.py")),
    *sorted(ROOT.glob("tests/**/*.py")),
    *sorted(ROOT.glob("benchmarks/**/*.py")),
    *sorted(ROOT.glob("examples/**/*.py")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("*.md")),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_spelling(file):
    allowed = ALLOWED.get(str(file.relative_to(ROOT)))
    lines = file.read_text(encoding="utf-8").splitlines()
    found = [line.strip() for line in lines if STUMBLES.search(line) and (allowed is None or allowed not in line)]
    assert not found
