"""Tests and the network.

`-m "not network"` leaves out what always goes to the network. A test marked `fetches("cifar10")` reads that data set
from the cache folder, where it is fetched once; under `-m "not network"` it is skipped if the cache folder lacks it.
"""

import pytest

from trimtab.data.fetched import emoji, groceries
from trimtab.files import cache_folder

KEPT = {  # the file below the cache folder that shows that a set has been fetched
    "cifar10": "cifar10/test_batch.bin",
    "fashion-mnist": "fashion-mnist/t10k-images-idx3-ubyte",
    "emoji": f"packages/{emoji.WHEEL.filename}",
    "groceries": f"packages/{groceries.WHEEL.filename}",
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "not network" not in item.config.option.markexpr:
        return
    wanted = [name for marker in item.iter_markers("fetches") for name in marker.args]
    for name in wanted:
        if not (cache_folder() / KEPT[name]).exists():
            pytest.skip(f"{name} is not in {cache_folder()} yet, and fetching it needs the network")
