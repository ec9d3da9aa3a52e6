"""How things show themselves in a notebook: what they say is what they hold, and everything is escaped."""

from html.parser import HTMLParser

import numpy as np
import pytest

from trimtab import MCP, Task, ZeroShot
from trimtab.checks import random_stream
from trimtab.study.tables import Cell, Row, Table


class Cells(HTMLParser):
    """The texts of a table's rows."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.open = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert tag in {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}, "nothing else is in there"
        assert not attributes
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


@pytest.fixture
def stream():
    task, features = random_stream(classes=7, dim=6, views=1, images=40, seed=0)
    names = ("<script>alert(1)</script>", *task.class_names[1:])
    return MCP(entropy_slots=2, align_slots=1, negative_slots=1).start(
        Task(names, task.text_prototypes, logit_scale=task.logit_scale)
    ), features


def test_a_stream_says_what_it_has_seen_and_keeps(stream):
    stream, features = stream
    stream.run(features)
    shown = dict(Cells(stream._repr_html_()).rows)
    assert shown["stream"] == "mcp"
    assert shown["images seen"] == "40"
    assert shown["classes"].startswith("7: <script>")
    bank = stream.state.caches.bank
    held = int((bank.sources[:, bank.sections["entropy"]] >= 0).sum())
    assert shown["entropy cache"] == f"{held} of 14 places taken"
    assert shown["entropy_slots"] == "2"
    assert "<script>" not in stream._repr_html_()


def test_a_stream_without_caches_shows_itself(stream):
    assert "zero_shot" in ZeroShot().start(stream[0].task)._repr_html_()


def test_a_prediction_shows_its_best_classes_first(stream):
    stream, features = stream
    prediction = stream.step(features[0])
    head, *rows = Cells(prediction._repr_html_()).rows
    assert head == ["class", "probability", *prediction.parts]
    assert [int(row[0]) for row in rows] == np.argsort(-prediction.probabilities, kind="stable")[:5].tolist()
    assert rows[0][1] == f"{prediction.probabilities.max():.1%}"
    assert "2 less probable classes are not shown" in prediction._repr_html_()


def test_predictions_show_the_first_images(stream):
    stream, features = stream
    predictions = stream.run(features)
    head, *rows = Cells(predictions._repr_html_()).rows
    assert head[:3] == ["image", "class", "probability"]
    assert [int(row[1]) for row in rows] == predictions.labels[:10].tolist()
    assert [int(row[3]) for row in rows] == predictions.parts[next(iter(predictions.parts))][:10].argmax(1).tolist()
    assert "40 predictions of 7 classes" in predictions._repr_html_()
    assert "30 more images are not shown" in predictions._repr_html_()
    without = stream.run(features[:3], keep_parts=False)
    assert "more images" not in without._repr_html_()


def test_a_table_shows_itself():
    table = Table("a & b", ["<i>"], [Row("<u>", [Cell("1 < 2")])], ["<note>"])
    assert Cells(table._repr_html_()).rows == [["Method", "<i>"], ["<u>", "1 < 2"]]
    assert "a &amp; b" in table._repr_html_()
    assert "&lt;note&gt;" in table._repr_html_()
