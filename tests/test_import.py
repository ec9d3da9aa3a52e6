"""`import trimtab` costs nothing: what is heavy is imported when it is used."""

import subprocess
import sys

import pytest

from trimtab.cli.main import VERBS

HEAVY = ("torch", "numba", "transformers", "onnxruntime", "matplotlib", "PIL")
ARRAYS = ("numpy", "scipy", "sklearn", "optuna", "safetensors")


def imported_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*[name for name in {HEAVY + ARRAYS!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_importing_the_package_imports_nothing_heavy():
    assert imported_by("import trimtab") == set()


def test_the_command_line_starts_light():
    assert imported_by("import trimtab.cli.main") == set()


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), *((verb, "--help") for verb in VERBS)])
def test_asking_for_help_imports_nothing_heavy(arguments):
    assert imported_by(f"from trimtab.cli.main import app\napp({list(arguments)!r}, standalone_mode=False)") == set()


def test_the_engine_needs_no_torch():
    assert imported_by("from trimtab import MCP, Stream, Task; import trimtab.checks") <= {"numba", *ARRAYS}
