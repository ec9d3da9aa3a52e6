"""A verb whose extra is not installed says what to install, in one sentence."""

import sys

import pytest

from trimtab.cli import main


@pytest.mark.parametrize(("package", "extra"), [("scipy", "bench"), ("matplotlib", "plots"), ("uvicorn", "serve")])
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
