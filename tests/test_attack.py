"""Crafted streams are what they say, and `trimtab attack` scores only what is clean."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab import TrimtabError
from trimtab.checks import random_stream
from trimtab.cli.main import app
from trimtab.engine.equations import softmax
from trimtab.study.attack.bar import standard_error, wanted
from trimtab.study.attack.crafting import ATTACKS, SURE, Victim, blended, poisoned
from trimtab.study.attack.trial import CLEAN, Trials, try_attacks
from trimtab.study.outputs import MARK


@pytest.fixture(scope="module")
def victim():
    task, features = random_stream(classes=5, dim=24, views=1, images=80, seed=0)
    labels = (features[:, 0] @ task.text_prototypes.T).argmax(axis=1)
    labels[::7] = (labels[::7] + 1) % 5  # so that the text is wrong somewhere
    return task, Victim(features[:, 0], labels, task.text_prototypes, 60.0)


@pytest.mark.parametrize("name", ATTACKS)
def test_clean_images_stay_as_they_were_and_in_order(name, victim):
    _, whom = victim
    found = poisoned(name, whom, seed=1)
    assert np.array_equal(found.features[found.clean], whom.features)
    assert (~found.clean).sum() > 0
    np.testing.assert_allclose(np.linalg.norm(found.features, axis=1), 1, atol=1e-5)
    assert np.array_equal(found.features, poisoned(name, whom, seed=1).features), "the same seed gives the same attack"


def test_a_blend_is_sure_of_its_target_and_of_no_more(victim):
    _, whom = victim
    targets = np.arange(5)
    crafted = blended(whom, np.random.default_rng(0), targets)
    sure = softmax(np.float32(60) * (crafted @ whom.text.T))[targets, targets]
    assert (sure > SURE - 1e-3).all()
    assert (sure < 1 - 1e-5).any(), "no more text than it takes"


def test_an_attack_that_is_none_is_refused(victim):
    with pytest.raises(TrimtabError, match="There is no attack 'bribe'"):
        poisoned("bribe", victim[1])


def test_outcomes_are_of_the_clean_images(victim):
    task, whom = victim
    found = try_attacks(
        "toy", task, whom.features, whom.labels, methods=["zero_shot", "mcp"], attacks=["first"], orders=2
    )
    for guarded in (False, True):
        assert found.accuracy("zero_shot", "first", guarded) == pytest.approx(found.zero_shot)
        assert found.accuracy("zero_shot", CLEAN, guarded) == pytest.approx(found.zero_shot)
    crafted = {o.guarded: o.refused_crafted for o in found.outcomes if (o.method, o.attack) == ("mcp", "first")}
    assert crafted[False] == 0
    assert crafted[True] > 0.5


def test_the_bar_is_a_share_of_the_gain_where_there_is_one():
    zero_shot, better = np.zeros((2, 50), np.bool_), np.zeros((2, 50), np.bool_)
    zero_shot[:, :10] = better[:, :20] = True
    assert wanted(zero_shot, better).mean() == pytest.approx(20 + 0.6 * 20)
    assert wanted(better, zero_shot).mean() == pytest.approx(40 - 0.5), "no gain: just below zero-shot"


def test_the_standard_error_covers_orders_and_images():
    random = np.random.default_rng(0)
    apart = np.arange(4000).reshape(10, 400)
    single = random.normal(size=(10, 400))
    assert standard_error(single, apart) == pytest.approx(1 / np.sqrt(4000), rel=0.3)
    by_order = single + random.normal(size=(10, 1))
    assert standard_error(by_order, apart) == pytest.approx((by_order.mean(axis=1).std(ddof=1)) / np.sqrt(10), rel=0.05)
    same = np.tile(np.arange(400), (10, 1))
    by_image = single + random.normal(size=400)
    assert standard_error(by_image, same) == pytest.approx(by_image.mean(axis=0).std() / np.sqrt(400), rel=0.2)
    assert standard_error(single[:1], apart[:1]) == pytest.approx(1 / np.sqrt(400), rel=0.2), "one order: by images"


def test_outcomes_say_how_far_below_the_bar_they_are(victim):
    task, whom = victim
    found = try_attacks("toy", task, whom.features, whom.labels, methods=["mcp"], attacks=["first"], orders=2)
    gain = found.accuracy("mcp", CLEAN, guarded=False) - found.zero_shot
    bar = found.zero_shot + (0.6 * gain if gain >= 1 else -0.5)
    for outcome in found.outcomes:
        assert outcome.short == pytest.approx(bar - outcome.accuracy)
        assert outcome.error >= 0
    assert max(outcome.error for outcome in found.outcomes) > 0


def test_the_command(tmp_path):
    make_store(tmp_path / "store")
    arguments = [
        "attack",
        str(tmp_path / "store"),
        "--methods",
        "tda",
        "--attacks",
        "blend",
        "--orders",
        "1",
        "--images",
        "40",
    ]
    shown = CliRunner().invoke(app, [*arguments, "--json", "-o", str(tmp_path / "found.json")])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert {(o["attack"], o["guarded"]) for o in found["outcomes"]} == {
        (attack, guarded) for attack in ("clean", "blend") for guarded in (False, True)
    }
    kept = json.loads((tmp_path / "found.json").read_text())
    assert found.pop("written") == str(tmp_path / "found.json")
    assert kept.pop("made_by").startswith(MARK)
    assert kept == found
    table = CliRunner().invoke(app, arguments)
    assert "top-1 under attack" in table.stdout


def test_only_outcomes_of_trimtabs_own_are_replaced(tmp_path, monkeypatch):
    make_store(tmp_path / "store")
    target, tried = tmp_path / "found.json", []

    def trial(store, **options):
        tried.append(options)
        return Trials(store.info.dataset, 50.0, ())

    def attack(*options):
        arguments = ["attack", str(tmp_path / "store"), "--methods", "tda", "-o", str(target), *options]
        return CliRunner().invoke(app, arguments)

    monkeypatch.setattr("trimtab.study.attack.trial.try_store", trial)
    for _ in range(2):
        assert f"written: {target}" in attack().stdout
    target.write_text("notes of mine")
    assert "found.json exists and was not written by trimtab" in str(attack().exception)
    assert len(tried) == 2, "it is refused before the work"
    assert attack("--overwrite").exit_code == 0
    assert json.loads(target.read_text())["zero_shot"] == 50.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.json", "store"]
