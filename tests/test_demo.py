"""The demo, end to end on real images through the real encoder, and its drawing on made-up ones."""

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from trimtab import MCP, TrimtabError
from trimtab.checks import random_stream
from trimtab.study.demo import figures


@pytest.mark.slow
def test_the_demo_gets_better_than_zero_shot_and_names_the_oracle(tmp_path):
    from trimtab.cli.main import app
    from trimtab.data.fetched.cifar import cifar10

    try:
        cifar10()
    except TrimtabError as error:
        pytest.skip(f"CIFAR-10 cannot be had here: {error}")
    result = CliRunner().invoke(app, ["demo", "--images", "400", "--out", str(tmp_path)], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    rows = {cells[1].strip(): cells for cells in (line.split("│") for line in result.output.splitlines()) if cells[1:]}
    assert float(rows["mcp"][4]) > 0, "MCP did not gain on real images"
    assert "oracle" in rows["oracle"][3]
    assert "no" in rows["auto"][3]
    for name in ("accuracy.png", "caches.png"):
        width, height = Image.open(tmp_path / name).size
        assert width > 500
        assert height > 300


def test_the_contact_sheet_marks_right_and_wrong(tmp_path):
    task, features = random_stream(classes=3, dim=6, views=1, images=40, seed=0)
    stream = MCP(entropy_slots=2, align_slots=2, negative_slots=1).start(task)
    stream.run(features)
    bank = stream.state.bank
    grey = np.full((8, 8, 3), 128, np.uint8)

    def colors(labels):
        figures.contact_sheet(bank, task.class_names, labels, lambda _: grey, tmp_path / "sheet.png")
        return {color for _, color in Image.open(tmp_path / "sheet.png").getcolors(10_000)}

    right, wrong = (0x00, 0x9E, 0x73), (0xD5, 0x5E, 0x00)
    truth = np.full(40, -1)
    for label, slot in np.argwhere(bank.sources >= 0):
        truth[bank.sources[label, slot]] = label
    assert right in colors(truth)
    nobody = colors(np.full(40, -1))
    assert wrong in nobody
    assert right not in nobody


def test_labels_at_the_end_of_lines_do_not_overlap():
    heights = figures._spread([50.0, 50.1, 50.2, 70.0])
    assert all(b - a >= 1.09 for a, b in pairwise(heights))
