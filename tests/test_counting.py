"""One thing is not several."""

import pytest

from trimtab.cli.counting import counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 images"), (1, "1 image"), (2000, "2,000 images")])
def test_things_are_counted_as_people_do(number, said):
    assert counted(number, "image") == said
