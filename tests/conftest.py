"""What every test can rely on: the methods, the log and the network.

Installed plug-ins are hidden, so that the suite is about the methods that come with trimtab, whatever else is there.

`-m "not network"` leaves out what always goes to the network. A test marked `fetches("cifar10")` reads that data set
from the cache folder, where it is fetched once; under `-m "not network"` it is skipped if the cache folder lacks it.
"""

import logging
import os
import signal
from collections.abc import Iterator

import pytest

from trimtab import registry
from trimtab.data.fetched import emoji, groceries
from trimtab.files import cache_folder

registry.entry_points = lambda group: ()  # now: tests are collected by method

os.fsync = lambda _: None  # type: ignore[assignment]  # kills are tried, power cuts are not; disks may take 20 ms for it
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore Ctrl-C

KEPT = {  # the file below the cache folder that shows that a set has been fetched
    "cifar10": "cifar10/test_batch.bin",
    "fashion-mnist": "fashion-mnist/t10k-images-idx3-ubyte",
    "emoji": f"packages/{emoji.WHEEL.filename}",
    "groceries": f"packages/{groceries.WHEEL.filename}",
}


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Undo what a test's `trimtab -v` has switched on."""
    logger = logging.getLogger("trimtab")
    handlers, level = logger.handlers.copy(), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "not network" not in item.config.option.markexpr:
        return
    wanted = [name for marker in item.iter_markers("fetches") for name in marker.args]
    for name in wanted:
        if not (cache_folder() / KEPT[name]).exists():
            pytest.skip(f"{name} is not in {cache_folder()} yet, and fetching it needs the network")
