"""What a record depends on: nothing that its figures pass through is missing, and nothing else is in."""

import importlib
import json
import os
import subprocess
import sys

import pytest

from bench_stores import make_store
from trimtab import DPE, MCP
from trimtab.methods import list_methods, method_class
from trimtab.study.bench import dependencies
from trimtab.study.bench.dependencies import code_fingerprint, modules_behind

# What a run passes through besides: reading a store (whose own fingerprint is in the record), timing and writing down.
AROUND = (
    "trimtab.engine.compiled",
    "trimtab.features",
    "trimtab.files",
    "trimtab.methods",
    "trimtab.registry",
    "trimtab.storage",
    "trimtab.study.bench.dependencies",
    "trimtab.study.bench.measures",
    "trimtab.study.bench.plan",
    "trimtab.study.bench.record",
    "trimtab.study.bench.runner",
    "trimtab.study.costs",
    "trimtab.toy_tower",
)
WHOLE_PACKAGES = ("trimtab.features", "trimtab.files")

TRACE = """
import json, sys
from pathlib import Path
import trimtab
from trimtab.features import FeatureStore, store
from trimtab.methods import list_methods, make_method
from trimtab.toy_tower import ToyTower
from trimtab.study.bench.plan import Run, possible_weights
from trimtab.study.bench.runner import execute

root = Path(trimtab.__file__).parent
path = sys.argv[1]
fingerprint = FeatureStore.open(path).fingerprint
toy = ToyTower(FeatureStore.open(path).text_prototypes)
store.tower_of = lambda *_: toy  # the store is of an encoder that does not exist
executed = {}
for name in list_methods():
    if make_method(name).needs:  # a store of features is not enough
        continue
    weights = possible_weights(make_method(name), ["fixed", "auto", "oracle"])
    files = set()
    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)
    sys.setprofile(note)
    records = execute(Run(path, "small", fingerprint, name, order="dirichlet:0.5", weights=weights))
    sys.setprofile(None)
    assert all(record.ok for record in records), records
    own = [Path(file).relative_to(root) for file in files if Path(file).is_relative_to(root)]
    modules = {".".join(["trimtab", *file.with_suffix("").parts]).removesuffix(".__init__") for file in own}
    executed[name] = sorted(modules)
print(json.dumps(executed))
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Method -> the modules of trimtab that run when it is benchmarked; without Numba, whose kernels cannot be seen."""
    store = make_store(tmp_path_factory.mktemp("stores") / "small", views=3, images=40)
    done = subprocess.run(
        [sys.executable, "-c", TRACE, str(store.path)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def is_around(module):
    return module in AROUND or module.startswith(tuple(f"{package}." for package in WHOLE_PACKAGES))


def test_every_module_that_runs_is_hashed(executed):
    assert set(executed) == {name for name in list_methods() if not method_class(name).needs}
    for name, modules in executed.items():
        missing = {module for module in modules if not is_around(module)} - modules_behind(method_class(name))
        assert not missing, f"{name} runs through {missing}, which its records do not depend on"
    assert "trimtab.engine.kernels" in executed["mcp"], "the trace does not see kernels"


def test_what_is_left_out_on_purpose_does_not_predict(executed):
    """Finding a method by its name is around a run; saving and loading is not even that."""
    assert {module for module in dependencies.BESIDE if not is_around(module)} == {"trimtab.engine.state_io"}
    assert not any("trimtab.engine.state_io" in modules for modules in executed.values())


def test_what_no_figure_passes_through_is_not_hashed():
    elsewhere = {"checks", "classifier", "cli", "encoders", "features", "files", "images", "prompts"}
    for name in list_methods():
        modules = modules_behind(method_class(name))
        needs = method_class(name).needs
        if needs:  # its figures pass through the encoder
            assert "text_tower" not in needs or "trimtab.encoders.prompted.tower" in modules
            assert ("trimtab.encoders.maple.tuning" in modules) == ("pixels" in needs)
            continue
        assert not {module.split(".")[1] for module in modules if module.startswith("trimtab.")} & elsewhere
        assert all("order" in module for module in modules if module.startswith("trimtab.data"))


def test_an_edit_to_one_method_leaves_the_others_alone():
    assert MCP.__module__ not in modules_behind(DPE)
    assert DPE.__module__ not in modules_behind(MCP)


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """A method in a package of its own, which imports as packages do."""
    folder = tmp_path / "far_away"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "numbers.py").write_text('"""Numbers."""\nSHARE = 0.5\n')
    (folder / "unused.py").write_text("SHARE = 0.7\n")
    (folder / "method.py").write_text(
        "from trimtab import MCP\n\n\n"
        "class Far(MCP):\n"
        '    name = "far"\n\n'
        "    def predict(self, image, state):\n"
        '        """Says it."""\n'
        "        from .numbers import SHARE\n\n"
        "        return {part: SHARE * said for part, said in super().predict(image, state).items()}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for module in [name for name in sys.modules if name.startswith("far_away")]:
        del sys.modules[module]
    forget()


def forget():
    for remembered in (code_fingerprint, modules_behind, dependencies._imported_by, dependencies._meaning):
        remembered.cache_clear()


def test_a_method_of_another_package_brings_its_modules(plug_in):
    far = importlib.import_module("far_away.method").Far
    modules = modules_behind(far)
    assert {module for module in modules if module.startswith("far_away")} == {"far_away.method", "far_away.numbers"}
    assert modules_behind(MCP) < modules


@pytest.mark.parametrize(
    ("file", "edit", "changes"),
    [
        ("numbers.py", lambda text: text.replace("0.5", "0.6"), True),
        ("method.py", lambda text: text.replace("SHARE * said", "SHARE + said"), True),
        ("unused.py", lambda text: text.replace("0.7", "0.8"), False),
        ("numbers.py", lambda text: text.replace("Numbers.", "The numbers."), False),
        ("numbers.py", lambda text: text.replace("SHARE = 0.5", "SHARE  =  (0.5)  # half"), False),
        ("method.py", lambda text: text.replace('        """Says it."""\n', ""), False),
    ],
)
def test_only_what_code_does_counts(plug_in, file, edit, changes):
    far = importlib.import_module("far_away.method").Far
    before, of_others = code_fingerprint(far), code_fingerprint(MCP)
    text = (plug_in / file).read_text()
    assert edit(text) != text
    (plug_in / file).write_text(edit(text))
    forget()
    assert (code_fingerprint(far) != before) == changes
    assert code_fingerprint(MCP) == of_others
