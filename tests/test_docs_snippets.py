"""Every Python and console block of README and docs runs, and prints the lines that the page says it prints.

The blocks of a page run in order, in one namespace and in one folder that holds what the reader is assumed to have
(docs_given). Numbers in the output may differ between machines, so lines are compared with their digits masked.
"""

import os
import re
import shlex
import subprocess
import sys
import types
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import platformdirs
import pytest

import trimtab
from docs_blocks import blocks
from docs_given import given
from trimtab.cli.main import run

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(page.relative_to(ROOT)) for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
)
SHELL_SIGNS = set("|;&<>$*")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty folder that is both the working folder and the home folder; only trimtab's cache is the real one."""
    cache = os.environ.get("TRIMTAB_CACHE") or platformdirs.user_cache_dir("trimtab")
    source = str(Path(trimtab.__file__).parents[1])
    commands = tmp_path / ".bin"
    commands.mkdir()
    (commands / "trimtab").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trimtab "$@"\n')
    (commands / "trimtab").chmod(0o755)
    environment = {
        "TRIMTAB_CACHE": cache,
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")]),
        "PATH": os.pathsep.join([str(commands), os.environ["PATH"]]),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "MPLBACKEND": "agg",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # small benchmarks: starting workers would take most of the time
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.fetches("cifar10", "groceries")
@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_shows_happens(page, desk, monkeypatch):
    found = blocks(ROOT / page)
    if not any(block.language in ("python", "console") and not block.why_not for block in found):
        return  # read all the same: its fences and comments are in order
    module = types.ModuleType("docs_page")  # dataclasses look their module up
    monkeypatch.setitem(sys.modules, "docs_page", module)
    vars(module).update(given(page, desk))
    printed = None
    for block in found:
        where = f"{page}:{block.line}"
        if block.language == "text" and block.follows and printed is not None:
            check_lines(where, block.text.splitlines(), printed)
        printed = None
        if block.why_not:
            continue
        if block.language == "python":
            printed = run_python(where, block.text_to_run, block.line, vars(module))
        elif block.language == "console":
            for command, lines in block.commands():
                check_lines(where, lines, run_command(where, command, block.exit_code).replace(str(desk), "/home/you"))


def run_python(where, text, line, namespace):
    output = StringIO()
    with redirect_stdout(output):
        exec(compile("\n" * (line - 1) + text, where, "exec"), namespace)
    return output.getvalue()


def run_command(where, command, exit_code):
    """What the command prints to both outputs; `trimtab` itself runs in this process, where its imports are made."""
    if not command.startswith("trimtab ") or SHELL_SIGNS & set(command):
        done = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, timeout=120)
        assert done.returncode == exit_code, f"{where}: $ {command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr
    output = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(output):
        patch.setattr(sys, "argv", [os.path.expanduser(word) for word in shlex.split(command, comments=True)])  # noqa: PTH111
        with pytest.raises(SystemExit) as stop:
            run()
    assert (stop.value.code or 0) == exit_code, f"{where}: $ {command}\n{output.getvalue()}"
    return output.getvalue()


def check_lines(where, expected, printed):
    """Each expected line is printed, in this order; `...` alone or at the end of a line stands for anything."""
    lines = iter([masked(line) for line in printed.splitlines()])
    for line in expected:
        start, dots, _ = masked(line).partition("...")
        seen = any((found.startswith(start) if dots else found == start) for found in lines)
        assert seen, f"{where}: this line is not printed (here, or at all): {line!r}\nprinted:\n{printed}"


def masked(line):
    """A line without what follows from its numbers: their digits, marks of significance, the widths of a table."""
    line = re.sub(r"\d[\d,]*(\.\d+)?(e-?\d+)?", "0", line)
    return " ".join(re.sub(r"([━─])+", r"\1", re.sub("[▲▼★]", "", line)).split())


def test_pages_are_found():
    assert {"README.md", "CONTRIBUTING.md", "docs/index.md", "docs/classify.md"} <= set(PAGES)


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```\nx\n```\n", "'' is not one of"),
        ("```bash\nls\n```\n", "'bash' is not one of"),
        ("<!-- not run: slow -->\n```python\nx\n```\n", "say why"),
        ("<!-- not run: needs a checkpoint -->\nprose\n```python\nx\n```\n", "not directly above"),
        ("```python\nx\n", "not closed"),
        ("<!-- run with: a => b -->\n```json\na\n```\n", "never run"),
    ],
)
def test_careless_pages_are_refused(tmp_path, page, complaint):
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(AssertionError, match=complaint):
        blocks(tmp_path / "page.md")


def test_a_line_that_is_not_printed_is_noticed():
    check_lines("here", ["cat 12.5%  a.png", "...", "done ..."], "note\ncat  9.75%  a.png\nother\ndone in 3 s\n")
    with pytest.raises(AssertionError, match="not printed"):
        check_lines("here", ["second", "first"], "first\nsecond\n")
