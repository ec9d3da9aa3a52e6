"""Every method owns its facts, and every parameter says what it means, wherever it is read."""

import inspect
from dataclasses import fields, replace

import pytest
from typer.testing import CliRunner

from trimtab.cli.main import app
from trimtab.engine.operations import Size
from trimtab.engine.parameters import described
from trimtab.methods import TRAITS, list_methods, make_method, method_class

PARAMETERS = [(name, found) for name in list_methods() for found in described(method_class(name))]


@pytest.mark.parametrize(("method", "parameter"), PARAMETERS, ids=lambda value: getattr(value, "name", value))
def test_every_parameter_is_documented_wherever_it_is_read(method, parameter):
    assert len(parameter.about) > 20, "say what it does and when to change it"
    assert parameter.about.endswith(".")
    assert parameter.allowed != "as documented"
    documentation = inspect.getdoc(method_class(method)) or ""
    assert f"{parameter.name}" in documentation
    assert parameter.about in documentation


@pytest.mark.parametrize("method", list_methods())
def test_the_command_shows_every_parameter(method):
    shown = CliRunner().invoke(app, ["methods", method], env={"COLUMNS": "300"}).output
    for parameter in described(method_class(method)):
        assert parameter.name in shown
        assert parameter.about in shown
        assert parameter.default in shown


@pytest.mark.parametrize("method", list_methods())
def test_a_method_owns_its_facts(method):
    found = method_class(method)
    assert found.name == method
    assert found.info is not None
    assert found.info.title
    assert found.info.traits <= set(TRAITS)
    assert found.info.look is not None
    size = Size(classes=10, dim=8, views=4, kept=1)
    towers = replace(size, text_pass=1e6, image_pass=1e7)
    assert make_method(method).operations(towers) > 0
    if found.needs:  # it passes through an encoder, whose size nobody may guess
        assert make_method(method).operations(size) is None
    else:
        assert make_method(method).operations(size) == make_method(method).operations(towers)
    known = {field.name for field in fields(found)}
    for parameters in found.released_values.values():
        assert set(parameters) <= known


def test_figures_tell_the_methods_apart():
    looks = [method_class(name).info.look for name in list_methods()]
    assert len(set(looks)) == len(looks)


def test_the_command_lists_the_methods():
    listing = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "200"}).output
    for name in list_methods():
        assert name in listing
    assert "ExpTestDist" in listing
