"""Released hyper-parameters by data set, against a table read from the released programs' settings."""

import csv
from pathlib import Path

import pytest

from trimtab import TrimtabError, make_method, preset
from trimtab.data.catalog import CATALOG
from trimtab.methods import list_methods, method_class
from trimtab.methods.facts import PAPER_SETS

with (Path(__file__).parent / "golden" / "released_values.tsv").open() as file:
    RELEASED = {row.pop("dataset"): row for row in csv.DictReader(file, delimiter="\t")}

# Column of the table -> the method and the parameters that must have its value.
COLUMNS = {
    "mcp_alpha": [("mcp", "positive_alpha"), ("mcp_plus", "positive_alpha")],
    "mcp_beta": [("mcp", "positive_beta"), ("mcp_plus", "positive_beta")],
    "mcp_plus_rate": [("mcp_plus", "learning_rate")],
    "tda_alpha": [("tda", "positive_alpha"), ("boostadapter", "positive_alpha")],
    "tda_beta": [("tda", "positive_beta"), ("boostadapter", "positive_beta")],
    "boost_slots": [("boostadapter", "boost_slots")],
    "dpe_alpha": [("dpe", "positive_alpha")],
    "dpe_beta": [("dpe", "positive_beta")],
    "dpe_rate": [("dpe", "lr_text"), ("dpe", "lr_image")],
    "dpe_align": [("dpe", "align_weight")],
}


def test_every_set_of_the_paper_has_values():
    assert set(RELEASED) == set(PAPER_SETS) == {entry.name for entry in CATALOG}
    with_values = {name for name in list_methods() if method_class(name).released_values}
    assert with_values == {"mcp", "mcp_plus", "tda", "boostadapter", "dpe", "dmn", "tps", "ctpt", "promptalign"}
    for name in with_values:
        assert set(method_class(name).released_values) == set(PAPER_SETS), name


@pytest.mark.parametrize("dataset", RELEASED)
def test_every_value_is_the_released_one(dataset):
    for column, places in COLUMNS.items():
        for method, parameter in places:
            assert getattr(preset(method, dataset), parameter) == float(RELEASED[dataset][column]), (method, parameter)
    assert preset("dmn", dataset).fusion == (1.0, float(RELEASED[dataset]["dmn_weight"]))
    assert preset("tps", dataset).learning_rate == (5e-3 if dataset.startswith("imagenet") else 1e-3)
    assert preset("promptalign", dataset).learning_rate == (4e-2 if dataset.startswith("imagenet") else 5e-4)
    assert preset("ctpt", dataset).dispersion_weight == (20 if dataset.startswith("imagenet") else 50)
    assert preset("mcp", dataset).prototype_term == "affinity"


@pytest.mark.parametrize("dataset", RELEASED)
def test_what_stands_for_an_image_is_the_released_choice(dataset):
    variants = {"imagenet-a", "imagenet-v2", "imagenet-r", "imagenet-sketch"}
    for method, with_mean in {"mcp": {"imagenet-a"}, "dpe": {"imagenet-a"}, "tda": variants}.items():
        assert (preset(method, dataset).query == "confident_mean") == (dataset in with_mean), method


def test_a_set_may_be_called_by_any_of_its_names():
    assert preset("tda", "EuroSAT") == preset("tda", "eurosat")
    assert preset("mcp", "imagenet_a") == preset("mcp", "imagenet-a")
    assert preset("dpe", "aircraft") == preset("dpe", "fgvc-aircraft")


def test_defaults_do_not_depend_on_a_data_set():
    assert make_method("tda") != preset("tda", "eurosat")


def test_what_has_no_values_is_named():
    with pytest.raises(TrimtabError, match="no released values for 'zero_shot'"):
        preset("zero_shot", "eurosat")
    with pytest.raises(TrimtabError, match="no released values for 'cifar10'"):
        preset("tda", "cifar10")
