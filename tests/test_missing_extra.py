"""A verb whose extra is not installed says what to install, in one sentence."""

import subprocess
import sys

import pytest
from PIL import Image

from trimtab.cli import main


@pytest.mark.parametrize(
    ("package", "extra"),
    [("scipy", "bench"), ("matplotlib", "plots"), ("uvicorn", "serve"), ("torch", "clip"), ("onnxscript", "onnx")],
)
def test_the_extra_is_named(package, extra, monkeypatch, capsys):
    def verb(**_):
        raise ModuleNotFoundError(f"No module named '{package}.stats'", name=f"{package}.stats")

    monkeypatch.setattr(main, "app", verb)
    with pytest.raises(SystemExit) as stop:
        main.run()
    assert stop.value.code == 2
    assert f"pip install 'trimtab[{extra}]'" in capsys.readouterr().err


def test_a_package_that_is_no_extra_is_a_bug_and_shown_as_one(monkeypatch):
    def verb(**_):
        raise ModuleNotFoundError("No module named 'nonsense'", name="nonsense")

    monkeypatch.setattr(main, "app", verb)
    monkeypatch.setattr(sys, "argv", ["trimtab"])
    with pytest.raises(ModuleNotFoundError):
        main.run()


@pytest.mark.parametrize(
    ("verb", "missing", "needed"),
    [
        (
            ("export", "-e", "lite", "-o", "zz"),
            "torch",
            "This needs the package torch; run: pip install 'trimtab[clip]'",
        ),
        (
            ("classify", "photos", "--labels", "cat,dog"),
            "onnxruntime",
            "'lite' needs onnxruntime; run: pip install 'trimtab[lite]'",
        ),
    ],
)
def test_a_missing_package_ends_a_verb_at_once(verb, missing, needed, tmp_path):
    (tmp_path / "photos").mkdir()
    for number in range(3):
        Image.new("RGB", (32, 32)).save(tmp_path / "photos" / f"{number}.png")
    launcher = f"import sys; sys.modules[{missing!r}] = None\nfrom trimtab.cli.main import run\nrun()"
    done = subprocess.run([sys.executable, "-c", launcher, *verb], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"trimtab: {needed}\n")
