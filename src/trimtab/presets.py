"""The hyper-parameters that the methods' released programs use for each of the paper's data sets.

The values stand in each method's own file (`released_values`); here a data set may be called by any of its names.
"""

from trimtab import arguments
from trimtab.data.catalog import find_entry
from trimtab.methods import Method, method_class


def preset(method: str, dataset: str) -> Method:
    """A method with the values of its released program for one of the paper's 15 sets.

    `preset("tda", "eurosat")` is TDA as its authors ran it on EuroSAT. THE VALUES WERE CHOSEN WITH THE TEST SETS IN
    SIGHT: one set of values per test set, none validated elsewhere; a figure made with them owes that to the labels.
    For data that nobody has tuned on, use a method's defaults, the same for every data set: `make_method("tda")`.
    """
    entry = find_entry(arguments.text("dataset", dataset))
    return method_class(method).released(entry.name if entry else dataset)
