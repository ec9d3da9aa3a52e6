"""The example of a method of one's own keeps the contract, and joins the benchmark as an installed package would."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from trimtab import list_methods, preset
from trimtab.checks import check_method, random_stream
from trimtab.cli.main import app
from trimtab.engine import Size
from trimtab.features import FeatureStore
from trimtab.methods.facts import MethodInfo, Released, Templates
from trimtab.prompts import templates_for
from trimtab.study.bench.rows import title_of
from trimtab.study.costs import gflops_per_image
from trimtab.study.plots.style import look_of

EXAMPLE = Path(__file__).parents[1] / "examples" / "recent"


@pytest.fixture
def recent(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import recent

    return recent.Recent


def test_it_keeps_the_contract(recent):
    check_method(recent())


def test_a_broken_method_is_caught(recent):
    class Broken(recent):
        def predict(self, image, state):
            parts = super().predict(image, state)
            self.observe(image, state)  # a prediction must not learn
            return parts

    with pytest.raises(AssertionError, match=r"differ|changed"):
        check_method(Broken())


def test_it_joins_the_benchmark_through_its_entry_point(tmp_path):
    installed = tmp_path / "site"
    details = installed / "trimtab_recent-0.1.0.dist-info"
    details.mkdir(parents=True)
    (details / "METADATA").write_text("Metadata-Version: 2.1\nName: trimtab-recent\nVersion: 0.1.0\n")
    (details / "entry_points.txt").write_text("[trimtab.methods]\nrecent = recent:Recent\n")
    (installed / "recent.py").write_text((EXAMPLE / "recent.py").read_text())
    task, features = random_stream(classes=4, dim=8, views=1, images=60, seed=0)
    labels = (features[:, 0] @ task.text_prototypes.T).argmax(axis=1)
    FeatureStore.from_arrays(
        tmp_path / "store", features, labels, np.array(task.text_prototypes), task.class_names, task.logit_scale
    )
    command = [sys.executable, "-m", "trimtab", "bench", str(tmp_path / "store"), "--methods", "recent"]
    subprocess.run(
        [*command, "--orders", "1", "--weights", "fixed", "--workers", "1", "-o", str(tmp_path / "results")],
        env={**os.environ, "PYTHONPATH": str(installed)},
        check=True,
        capture_output=True,
        timeout=200,
    )
    records = [json.loads(file.read_text()) for file in (tmp_path / "results").rglob("*-*.json")]
    methods = {record["about"]["method"] for record in records}
    assert {"recent", "zero_shot"} <= methods


def test_a_plug_in_brings_all_of_its_facts(recent, monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Described(recent):
        """Recent, with everything that a built-in method has."""

        name: ClassVar[str] = "described"
        info: ClassVar[MethodInfo] = MethodInfo(title="Described!", look=("#123456", "*", "--"))
        released_values: ClassVar[Released] = {"eurosat": {"alpha": 7.0}}
        templates: ClassVar[Templates] = {"eurosat": "satellite"}

        def operations(self, size: Size) -> float:
            """One product per class."""
            return size.products(1, size.classes)

    class Entry:
        name, value = "described", "package:Described"

        def load(self):
            return Described

    monkeypatch.setattr("trimtab.registry.entry_points", lambda group: [Entry()])
    assert "described" in list_methods()
    assert title_of("described") == "Described!"
    assert look_of("described") == ("#123456", "*", "--")
    assert preset("described", "EuroSAT").alpha == 7.0
    assert templates_for("described", "eurosat") == templates_for("satellite")
    assert gflops_per_image(Described(), classes=10, dim=50, views=1) == pytest.approx(1e-6)
    assert "Described!" in CliRunner().invoke(app, ["methods"], env={"COLUMNS": "120"}).output
    assert "Strength of the memory" in CliRunner().invoke(app, ["methods", "described"], env={"COLUMNS": "120"}).output
    check_method(Described(), images=40)
