"""Released hyper-parameters by data set, and the list of methods."""

import pytest
from typer.testing import CliRunner

from trimtab import TrimtabError, make_method
from trimtab.cli.main import app
from trimtab.data.catalog import CATALOG
from trimtab.methods import list_methods
from trimtab.presets import RELEASED, preset


def test_every_set_of_the_paper_has_values():
    assert set(RELEASED) == {entry.name for entry in CATALOG}


@pytest.mark.parametrize("dataset", RELEASED)
@pytest.mark.parametrize("method", ["mcp", "mcp_plus", "tda", "boostadapter", "dpe", "dmn", "tps"])
def test_every_preset_is_a_valid_method(method, dataset):
    assert preset(method, dataset).name == method


def test_values_are_the_released_ones():
    assert preset("tda", "EuroSAT").positive_alpha == 4.0
    assert preset("mcp", "imagenet").positive_beta == 8.0
    assert preset("mcp", "imagenet_a").query == "confident_mean"
    assert preset("mcp_plus", "food101").learning_rate == 2e-4
    assert preset("boostadapter", "stanford_cars").boost_slots == 3
    assert preset("dpe", "caltech101").positive_alpha == 15.0
    assert preset("dmn", "dtd").fusion == (1.0, 10.0)


def test_defaults_do_not_depend_on_a_data_set():
    assert make_method("tda") != preset("tda", "eurosat")


def test_what_has_no_values_is_named():
    with pytest.raises(TrimtabError, match="no released values for 'zero_shot'"):
        preset("zero_shot", "eurosat")
    with pytest.raises(TrimtabError, match="no released values for 'cifar10'"):
        preset("tda", "cifar10")


def test_the_command_lists_methods_and_their_parameters():
    runner = CliRunner()
    listing = runner.invoke(app, ["methods"], env={"COLUMNS": "200"}).output
    for name in list_methods():
        assert name in listing
    assert "ExpTestDist" in listing
    parameters = runner.invoke(app, ["methods", "tda"], env={"COLUMNS": "120"}).output
    assert "positive_slots" in parameters
    assert "a whole number of at least 0" in parameters
