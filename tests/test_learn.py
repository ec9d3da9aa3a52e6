"""CoOp: from labeled pictures to a context file, through interrupts, and what users get wrong."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from tiny_encoder import COLORS, ColorEncoder, PromptedColorEncoder, colored
from trimtab import Classifier, FeatureStore, TrimtabError
from trimtab.cli.main import app
from trimtab.encoders.prompted.context_files import read_context, save_context
from trimtab.features.contexts import context_of
from trimtab.files import FileLock
from trimtab.learn import CoOp, Shape, few_shots, learn_coop, learn_from_store, run
from trimtab.learn.coop import cross_entropy, epochs_for
from trimtab.learn.sgd import SGD, Schedule
from trimtab.study.bench.results import read_results
from trimtab.study.tables import report_tables

NAMES = tuple(COLORS)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Six pictures of each of four colors, in a folder each; the working folder is theirs."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name, **_: PromptedColorEncoder())
    monkeypatch.chdir(tmp_path)
    for number in range(24):
        file = tmp_path / "photos" / NAMES[number % 4] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(colored(NAMES[number % 4], seed=number, noise=120)).save(file)
    return tmp_path / "photos"


def trimtab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def store(photos):
    assert trimtab("encode", photos, "-o", "store", "--dtype", "float32").exit_code == 0
    return FeatureStore.open("store")


def test_the_command_learns_and_says_whose_labels(photos, tmp_path):
    done = trimtab("learn", "coop", photos, "--shots", 4, "--epochs", 30, "--length", 3, "-o", "c.safetensors")
    assert done.exit_code == 0, done.output
    assert "3 learned vectors (end), trained on labels of photos (4 per class)" in done.stdout.replace("\n", " ")
    learned = read_context(tmp_path / "c.safetensors")
    assert learned.context.shape == (3, 6)
    assert learned.encoder_fingerprint == PromptedColorEncoder().fingerprint
    assert sorted(path.name for path in tmp_path.glob("c.safetensors*")) == ["c.safetensors"]
    other = trimtab("learn", "coop", photos, "--shots", 4, "-o", "c.safetensors")
    assert "is already there, and not what this command makes" in str(other.exception)
    (tmp_path / "x.safetensors").write_text("mine")
    other = trimtab("learn", "coop", photos, "--shots", 4, "-o", "x.safetensors")
    assert "is already there, and not what this command makes" in str(other.exception)


def test_a_kill_before_everything_is_tidied_is_made_good(photos, tmp_path, monkeypatch):
    command = ("learn", "coop", photos, "--shots", 4, "--epochs", 5, "--length", 3, "-o", "c.safetensors")
    with monkeypatch.context() as broken:
        broken.setattr("trimtab.learn.run.shutil.rmtree", lambda *_, **__: 1 / 0)
        assert isinstance(trimtab(*command).exception, ZeroDivisionError)
    made = (tmp_path / "c.safetensors").read_bytes()
    names = ["c.safetensors", "c.safetensors.features", "c.safetensors.unfinished"]
    assert sorted(path.name for path in tmp_path.glob("c.safetensors*")) == names
    again = trimtab(*command)
    assert again.exit_code == 0, again.output
    assert "trained on labels of photos" in again.stdout
    assert sorted(path.name for path in tmp_path.glob("*c.safetensors*")) == ["c.safetensors"]
    assert (tmp_path / "c.safetensors").read_bytes() == made


def test_without_a_terminal_lines_say_how_far_it_is(store, monkeypatch):
    monkeypatch.setattr("trimtab.cli.progress.EVERY_SECONDS", 0.0)
    done = trimtab("learn", "coop", "store", "--shots", 2, "--epochs", 3, "-o", "c.safetensors")
    assert done.exit_code == 0, done.output
    assert "learn: 2 of 3 epochs" in done.stderr


def test_one_process_at_a_time(store, tmp_path):
    out = tmp_path / "c.safetensors"
    lock = FileLock(out)
    with pytest.raises(TrimtabError, match=r"Another process is using .*c\.safetensors; wait for it"):
        learn_from_store(CoOp(shots=2), Shape(), store, PromptedColorEncoder(), out)
    lock.release(remove=True)


@pytest.mark.parametrize("position", ["end", "middle", "front"])
@pytest.mark.parametrize("shape", [{"words": "a photo of a"}, {"length": 2}, {"length": 2, "class_specific": True}])
def test_learning_lowers_the_loss(store, tmp_path, shape, position):
    encoder = PromptedColorEncoder()
    out = tmp_path / "c.safetensors"
    recipe = CoOp(shots=6, epochs=40, batch=8)
    learned = learn_from_store(recipe, Shape(position=position, **shape), store, encoder, out)
    before = run._tower(Shape(position=position, **shape), encoder, store.class_names, 0)
    features, labels = store.rows(slice(None))[:, 0].astype(np.float32), store.labels
    losses = [
        cross_entropy(features, labels, before[0].features(context), encoder.logit_scale)[0]
        for context in (before[1], learned.context)
    ]
    assert losses[1] < losses[0]
    assert learned.class_names == (tuple(store.class_names) if shape.get("class_specific") else ())


def test_an_interrupted_run_ends_with_the_same_numbers(store, tmp_path, monkeypatch):
    recipe, shape, encoder = CoOp(shots=4, epochs=12, batch=5), Shape(length=2), PromptedColorEncoder()
    whole = learn_from_store(recipe, shape, store, encoder, tmp_path / "whole.safetensors")
    calls = iter(range(1000))

    def stops(*given):
        if next(calls) == 20:
            raise KeyboardInterrupt
        return cross_entropy(*given)

    monkeypatch.setattr("trimtab.learn.coop.cross_entropy", stops)
    out = tmp_path / "c.safetensors"
    with pytest.raises(KeyboardInterrupt):
        learn_from_store(recipe, shape, store, encoder, out)
    unfinished = tmp_path / "c.safetensors.unfinished"
    kept = unfinished.read_bytes()
    unfinished.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(TrimtabError, match=r"unfinished cannot be read; delete it to begin again"):
        learn_from_store(recipe, shape, store, encoder, out)
    unfinished.write_bytes(kept)
    assert not out.exists()
    with pytest.raises(TrimtabError, match="begun with other images, classes or settings"):
        learn_from_store(CoOp(shots=4, epochs=13, batch=5), shape, store, encoder, out)
    continued = learn_from_store(recipe, shape, store, encoder, out)
    assert next(calls) < 20 + 12 * 3, "it began again"
    np.testing.assert_array_equal(continued.context, whole.context)
    assert not unfinished.exists()


def test_a_damaged_unfinished_file_is_named(store, tmp_path):
    (tmp_path / "c.safetensors.unfinished").write_bytes(b"nothing")
    with pytest.raises(TrimtabError, match=r"c\.safetensors\.unfinished cannot be read; delete it"):
        learn_from_store(CoOp(shots=2), Shape(), store, PromptedColorEncoder(), tmp_path / "c.safetensors")


def test_views_are_drawn_anew_in_every_epoch(photos):
    done = trimtab("learn", "coop", photos, "--shots", 2, "--epochs", 3, "--views", 3, "-o", "views.safetensors")
    assert done.exit_code == 0, done.output
    views = np.arange(20, dtype=np.float32).reshape(10, 2, 1)
    from trimtab.learn.coop import _shown

    assert not np.array_equal(_shown(views, 0, 0), _shown(views, 0, 1))
    np.testing.assert_array_equal(_shown(views, 0, 1), _shown(views, 0, 1))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--shots", 7), r"The class 'blue' has 6 labeled images, but 7 shots"),
        (("--position", "nowhere"), "--position must be one of end, middle, front"),
        (("-o", "context.pt"), "written as .safetensors"),
        (("-o", "missing/c.safetensors"), "There is no folder missing"),
        (("--rate", "1e30", "--epochs", 5), "NaN or infinity in epoch 3; use a smaller learning rate than 1e\\+30"),
        (("--rate", "0"), "must be a positive number"),
    ],
)
def test_wrong_use_is_one_sentence(photos, arguments, sentence):
    result = trimtab("learn", "coop", photos, "--shots", 2, *arguments)
    assert isinstance(result.exception, TrimtabError)
    with pytest.raises(TrimtabError, match=sentence):
        raise result.exception
    assert not list(photos.parent.glob("*.unfinished"))


def test_other_kinds_and_pictures_without_labels_are_refused(photos, tmp_path):
    assert "No such command 'cocoop'" in trimtab("learn", "cocoop", photos).stderr
    flat = tmp_path / "flat"
    flat.mkdir()
    Image.fromarray(colored("red", seed=1)).save(flat / "1.png")
    assert "flat has no labels" in str(trimtab("learn", "coop", flat).exception)
    with pytest.raises(TrimtabError, match="no labels"):
        few_shots(np.full(5, -1), NAMES, 1, 0)


def test_an_encoder_without_a_tower_is_refused(photos, monkeypatch):
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name, **_: ColorEncoder())
    assert "has no text tower" in str(trimtab("learn", "coop", photos, "--shots", 2).exception)


def test_shots_are_drawn_by_the_seed():
    labels = np.repeat([0, 1, -1, 2], 10)
    first, again, other = (few_shots(labels, "abc", 4, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_array_equal(np.bincount(labels[first]), [4, 4, 4])


def test_the_schedule_and_the_optimizer_are_the_released_ones():
    assert [epochs_for(shots) for shots in (1, 2, 4, 8, 16)] == [50, 100, 100, 200, 200]
    rates = [Schedule(2e-3, 3).rate(epoch) for epoch in range(3)]
    np.testing.assert_allclose(rates, [1e-5, 2e-3, 1.5e-3])
    random = np.random.default_rng(0)
    moved = random.normal(size=(3, 4)).astype(np.float32)
    parameter = torch.tensor(moved, dtype=torch.float64, requires_grad=True)
    theirs, ours = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, weight_decay=0.3), SGD(0.9, 0.3)
    for _ in range(4):
        gradient = random.normal(size=(3, 4))
        parameter.grad = torch.tensor(gradient)
        theirs.step()
        moved = ours.step(moved, gradient, 0.1)
        np.testing.assert_allclose(moved, parameter.detach(), atol=1e-6)


def test_an_epoch_shows_every_image_once_in_an_order_of_its_own():
    recipe = CoOp(batch=4)
    first, second = recipe.batches(0, 12), recipe.batches(1, 12)
    assert sorted(np.concatenate(first)) == list(range(12))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))
    assert [len(batch) for batch in recipe.batches(0, 10)] == [4, 4]  # what does not fill a batch waits, as released
    assert [len(batch) for batch in recipe.batches(0, 3)] == [3]


ABOUT = {"position": "end", "encoder": "colors", "encoder_fingerprint": "1", "trained_on": "photos (4 per class)"}


def vectors(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_a_context_comes_back_from_its_file(tmp_path):
    file = tmp_path / "c.safetensors"
    generic = save_context(file, vectors(4, 6), **ABOUT)
    assert (
        str(read_context(file))
        == str(generic)
        == ("4 learned vectors (end), trained on labels of photos (4 per class)")
    )
    own = save_context(file, vectors(3, 4, 6), **ABOUT, words="a photo", class_names=["a", "b", "c"])
    read = read_context(file)
    np.testing.assert_array_equal(read.context, vectors(3, 4, 6))
    assert (str(read), read.class_names, read.words) == (str(own), ("a", "b", "c"), "a photo")


def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "c.safetensors"
    save_context(file, vectors(4, 6), **ABOUT)
    whole = file.read_bytes()
    for damaged, sentence in (
        (whole[:-9], "does not hold a context"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "changed or damaged"),
        (whole.replace(b"4 per class", b"9 per class"), "changed or damaged"),
        (whole.replace(b"trimtab-context", b"trimtab-another"), "changed or damaged"),
        (b"", "does not hold a context"),
    ):
        file.write_bytes(damaged)
        with pytest.raises(TrimtabError, match=sentence):
            read_context(file)
    with pytest.raises(TrimtabError, match="holds NaN or infinity"):
        save_context(file, np.full((4, 6), np.nan, np.float32), **ABOUT)
    with pytest.raises(TrimtabError, match="cannot be written"):
        save_context(tmp_path / "missing" / "c.safetensors", vectors(4, 6), **ABOUT)


def test_a_released_checkpoint_says_that_its_data_is_not_named(tmp_path):
    file = tmp_path / "model.pth.tar-50"
    torch.save({"state_dict": {"ctx": torch.randn(16, 6).half()}, "epoch": 50}, file)
    assert "16 learned vectors, trained on labels of unnamed data (model.pth.tar-50" in str(read_context(file))


def test_a_learned_context_is_taken_wherever_prompts_are(photos, tmp_path):
    assert trimtab("learn", "coop", photos, "--shots", 4, "--length", 2, "-o", "c.safetensors").exit_code == 0
    done = trimtab("encode", photos, "--context", "c.safetensors", "-o", "learned")
    assert done.exit_code == 0, done.output
    store, encoder = FeatureStore.open("learned"), PromptedColorEncoder()
    tower = encoder.text_tower(store.class_names, context=read_context("c.safetensors").context)
    np.testing.assert_array_equal(store.text_prototypes, tower.features(tower.start))
    assert store.info.prompts == "2 learned vectors (end), trained on labels of photos (4 per class)"
    np.testing.assert_array_equal(read_context(context_of(store.folder)).context, tower.start)
    tuned = store.task({"text_tower"}).text_tower  # prompt tuning starts from the context that the store keeps
    np.testing.assert_array_equal(tuned.start, tower.start)
    shown = trimtab("classify", photos, "--labels", ",".join(NAMES), "--context", "c.safetensors", "-m", "zero_shot")
    assert shown.exit_code == 0, shown.output
    classifier = Classifier(encoder, store.class_names, method="tpt", context=tmp_path / "c.safetensors", views=12)
    np.testing.assert_allclose(classifier.task.text_prototypes, store.text_prototypes, atol=1e-6)
    assert classifier.classify(photos / "red" / "0.png")[0]["score"] > 0.25
    with pytest.raises(TrimtabError, match="takes the place of templates and CuPL"):
        Classifier(encoder, store.class_names, context="c.safetensors", cupl={})
    with pytest.raises(TrimtabError, match="takes the place of templates"):
        Classifier(encoder, store.class_names, context="c.safetensors", templates="photo")
    both = trimtab("encode", photos, "--context", "c.safetensors", "--templates", "photo", "-o", "both")
    assert "takes the place of templates" in str(both.exception)
    bench = trimtab("bench", "learned", "--methods", "tda", "--orders", 1, "--weights", "fixed", "--workers", 1)
    assert bench.exit_code == 0, bench.output
    tables = report_tables(read_results("results"))
    assert len(tables) == 3
    for table in tables:
        assert any("USES LABELS" in note and "trained on labels of photos" in note for note in table.notes), table.title


def test_steps_can_be_followed(store):
    tower, start = run._tower(Shape(length=2), PromptedColorEncoder(), store.class_names, 0)
    features = store.rows(slice(None)).astype(np.float32)
    steps = list(learn_coop(CoOp(epochs=3, batch=12), tower, features, store.labels, 30.0, start=start))
    assert [step.epoch for step in steps] == [0, 0, 1, 1, 2, 2]
    assert json.dumps([step.loss for step in steps])
