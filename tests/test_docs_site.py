"""The documentation site builds strictly, and neither needs nor asks another host."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trimtab
from docs_blocks import blocks
from trimtab.cli.main import VERBS
from trimtab.methods import method_class

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
ROOMS = [f"trimtab.{room}" for room in ("engine", "fusion", "encoders", "prompts", "data", "features")]
ROOMS += [f"trimtab.study.{room}" for room in ("bench", "tables", "plots", "report", "ablations")]


def test_the_architecture_page_shows_the_layers_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    shown = [block.text.split("\n") for block in blocks(ROOT / "docs" / "architecture.md") if block.language == "text"]
    assert [layer for layer in layers if layer != "__main__"] in [lines[:-1] for lines in shown]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    """Files in backticks, modules that are run with python -m, and (of the architecture) modules by their rooms."""
    text, sources = page.read_text(), ROOT / "src" / "trimtab"
    files = set(re.findall(r"`([\w/]+\.py)`", text)) - {"utils.py", "src/trimtab/methods/NAME.py"}
    files |= {
        f"{name.replace('.', '/')}.py" for name in re.findall(r"python -m ((?:benchmarks|tests)\.[\w.]*\w)", text)
    }
    if page.name == "architecture.md":
        rooms = "|".join(folder.name for folder in sources.iterdir() if (folder / "__init__.py").exists())
        files |= {f"{room}/{module}.py" for room, module in re.findall(rf"`({rooms})\.(\w+)", text)}
    for file in sorted(files):
        places = [
            root / way for root in (ROOT, ROOT / "src", sources) for way in (file, file.replace(".py", "/__init__.py"))
        ]
        assert any(place.exists() for place in places), f"{page.name} names {file}, which does not exist"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    path = os.pathsep.join([str(Path(trimtab.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    built = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_no_page_loads_anything_from_another_host(site):
    loads = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=["']?(?:https?:)?//[^\s>]*""")
    imports = re.compile(r"""@import[^;]*//|url\(["']?(?:https?:)?//""")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert {found for page in pages for found in loads.findall(page.read_text())} == set()
    assert {sheet.name for sheet in site.rglob("*.css") if imports.search(sheet.read_text())} == set()


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site):
    reference = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    assert [name for name in trimtab.__all__ if not re.search(rf'id="trimtab\.(\w+\.)*{name}"', reference)] == []
    missing = [name for room in ROOMS for name in documented(room) if f'id="{name}"' not in reference]
    assert missing == []


def documented(room):
    """The classes and functions that a package declares public."""
    package = importlib.import_module(room)
    for name in package.__all__:
        value = getattr(package, name)
        hidden_by_its_module = importlib.util.find_spec(f"{room}.{name}") is not None
        if (inspect.isclass(value) or inspect.isfunction(value)) and not hidden_by_its_module:
            yield f"{room}.{name}"


@pytest.mark.slow
def test_every_verb_and_every_method_has_its_section(site):
    commands = (site / "reference" / "cli.html").read_text()
    assert [verb for verb in VERBS if f'id="trimtab-{verb}"' not in commands] == []
    methods = (site / "reference" / "methods.html").read_text()
    own = [name for name in trimtab.list_methods() if method_class(name).__module__.startswith("trimtab.")]
    assert [name for name in own if f'id="{name}"' not in methods] == []
