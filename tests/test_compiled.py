"""Compiled loops are kept between processes, also where the installation cannot be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trimtab
from trimtab.engine.compiled import njit


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """An installation in which nothing can be kept beside the source, not even by root."""
    folder = tmp_path_factory.mktemp("installed") / "trimtab"
    shutil.copytree(Path(trimtab.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("engine", "images", "fusion"):
        (folder / room / "__pycache__").touch()  # a file, where a folder would have to be made
    return folder.parent


def resize_once(installation, **environment):
    """Resize a picture in a process of its own, with no home; returns what it printed."""
    program = (
        "import numpy as np; from trimtab.images.resample import _resize, resize; "
        "resize(np.zeros((4, 4, 3), np.uint8), 8, 8); print(sum(_resize.stats.cache_hits.values()))"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "TRIMTAB", "XDG"))}
    clean |= {"PYTHONPATH": str(installation), "HOME": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run([sys.executable, "-c", program], env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="homes are elsewhere")
def test_a_read_only_installation_without_a_home_keeps_them_in_the_cache_folder(read_only, tmp_path):
    assert resize_once(read_only, TRIMTAB_CACHE=str(tmp_path)) == "0"
    assert resize_once(read_only, TRIMTAB_CACHE=str(tmp_path)) == "1"
    assert any((tmp_path / "kernels").rglob("*.nbc"))


@pytest.mark.skipif(sys.platform == "win32", reason="homes are elsewhere")
def test_with_no_place_at_all_each_process_compiles(read_only):
    assert resize_once(read_only, TRIMTAB_CACHE="/dev/null/nowhere") == "0"


@pytest.mark.parametrize(("options", "into_callers"), [({"fastmath": {"reassoc"}}, True), ({}, False)])
def test_sums_that_may_be_reordered_have_no_copy_that_callers_share(options, into_callers):
    """What this keeps true, equal bits of the first and of later processes, takes minutes: tests.audit.cold_start."""
    function = njit(nogil=True, **options)(lambda x: x)
    assert function.targetoptions["forceinline"] == into_callers
