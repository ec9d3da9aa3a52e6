"""Equations of the paper are easy to find: the tables name functions that exist, and the computing lines are tagged."""

import importlib
import re
from pathlib import Path

import pytest

import trimtab
from trimtab.methods import joint_loss, mcp, mcp_plus, three_caches

SOURCES = Path(trimtab.__file__).parent
ROWS = [
    (module, name)
    for module in (mcp, mcp_plus, three_caches)
    for row in (module.__doc__ or "").splitlines()
    if row.startswith("|")
    for name in re.findall(r"`([A-Za-z_.]+)`", row)
]


def resolves(module, name):
    """Whether a name of a table leads somewhere: in the module itself, or below trimtab or trimtab.methods."""
    for package in (module.__name__, "trimtab", "trimtab.methods", "trimtab.engine.residuals"):
        words = [*package.split("."), *name.split(".")]
        for cut in range(len(words), 0, -1):
            try:
                found = importlib.import_module(".".join(words[:cut]))
            except ImportError:
                continue
            try:
                for word in words[cut:]:
                    found = getattr(found, word)
            except AttributeError:
                break
            return True
    return False


@pytest.mark.parametrize(("module", "name"), ROWS, ids=lambda value: getattr(value, "__name__", value))
def test_the_tables_name_what_exists(module, name):
    assert resolves(module, name)


def test_a_name_that_leads_nowhere_would_be_noticed():
    assert not resolves(mcp, "MCP.no_such_function")


@pytest.mark.parametrize("number", range(1, 11))
def test_every_equation_is_tagged_where_it_is_computed(number):
    tag = re.compile(rf"^\s*[^\s#\"].*#.*\bEq\. {number}\b")
    lines = [
        line
        for room in ("engine", "fusion", "methods")
        for file in (SOURCES / room).glob("*.py")
        for line in file.read_text().splitlines()
        if tag.search(line)
    ]
    assert lines, f"no line computes Eq. {number}"


def test_both_tables_list_all_equations():
    assert all(re.search(rf"\| {number}: ", mcp.__doc__ or "") for number in range(1, 6))
    assert all(re.search(rf"\| {number}: ", mcp_plus.__doc__ or "") for number in range(6, 11))
    assert "three cases" in (three_caches.__doc__ or "")
    assert joint_loss.__doc__
