"""`import trimtab` costs nothing: what is heavy is imported when it is used."""

import subprocess
import sys

HEAVY = ("torch", "numba", "transformers", "onnxruntime", "matplotlib", "PIL")


def imported_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    assert imported_by("import trimtab") == set()


def test_the_command_line_starts_light():
    assert imported_by("import trimtab.cli.main") == set()


def test_the_engine_needs_no_torch():
    assert imported_by("from trimtab import MCP, Stream, Task; import trimtab.checks") <= {"numba"}
