"""Who needs a text tower gets one: from the store's encoder, from the classifier's, or a toy for the contract."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from bench_stores import make_store
from golden_clip import golden, write_golden_clip
from tiny_encoder import ColorEncoder
from trimtab import registry
from trimtab.checks import check_method, random_stream
from trimtab.classifier import Classifier
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.features.towers import tower_of
from trimtab.methods.promptalign import PromptAlign
from trimtab.methods.zero_shot import ZeroShot
from trimtab.study.bench.dependencies import modules_behind
from trimtab.study.bench.plan import Run
from trimtab.study.bench.runner import execute
from trimtab.study.demo import race
from trimtab.task import Task
from trimtab.toy_tower import WIDTH, ToyTower

NAMES = ("red", "green", "blue", "yellow")


@dataclass(frozen=True, kw_only=True)
class Leaning(ZeroShot):
    """Zero-shot after one step down the slopes of the probable class's similarity; enough to need a tower."""

    name: ClassVar[str] = "leaning"
    needs: ClassVar[frozenset[str]] = frozenset({"text_tower"})

    def predict(self, image, state):
        task, view = image.block.task, image.block.views[image.row][0]
        tower = task.text_tower
        slopes = np.zeros_like(task.text_prototypes)
        slopes[image.probabilities.argmax()] = view
        context = tower.start + np.float32(0.1) * tower.pullback(tower.start, slopes)
        logits = task.logit_scale * tower.features(context) @ view
        exponentials = np.exp(logits - logits.max())
        return {"text": (exponentials / exponentials.sum()).astype(np.float32)}


@pytest.fixture(autouse=True)
def installed(monkeypatch, tmp_path):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(registry.BUILT_IN, "leaning", f"{__name__}:Leaning")
    tower_of.cache_clear()
    yield
    tower_of.cache_clear()


@pytest.mark.parametrize("class_specific", [False, True])
def test_the_toy_pulls_back_what_differences_show(class_specific):
    random = np.random.default_rng(0)
    tower = ToyTower(random_stream(5, 8, 1, 1, 0)[0].text_prototypes)
    context = random.normal(size=(5, 4, WIDTH) if class_specific else (4, WIDTH))
    slopes = random.normal(size=(5, 8))

    def loss(at):
        raw, _ = tower._forward(at)
        return (raw / np.linalg.norm(raw, axis=1, keepdims=True) * slopes).sum()

    gradient = np.zeros(context.shape)
    for place in np.ndindex(context.shape):
        step = np.zeros(context.shape)
        step[place] = 1e-5
        gradient[place] = (loss(context + step) - loss(context - step)) / 2e-5
    np.testing.assert_allclose(tower.pullback(context, slopes), gradient, rtol=1e-4, atol=1e-6)
    assert tower.features(context).dtype == tower.pullback(context, slopes).dtype == np.float32
    with pytest.raises(TrimtabError, match="contexts are"):
        tower.features(np.zeros((4, WIDTH + 1), np.float32))


def test_a_method_with_a_tower_is_checked_without_torch():
    check_method(Leaning(), images=40)
    prototypes = random_stream(4, 8, 1, 1, 0)[0].text_prototypes
    check_method(Leaning(), classes=4, dim=8, images=20, text_tower=ToyTower(prototypes, seed=1, reach=1.0))


def test_what_a_random_stream_cannot_bring_is_refused():
    with pytest.raises(TrimtabError, match="has features only, and no pixels"):
        random_stream(4, 8, 1, 1, 0, needs={"pixels"})


def test_the_tower_is_part_of_the_task():
    task, _ = random_stream(4, 8, 1, 1, 0)
    with_tower = Task(task.class_names, task.text_prototypes, 20.0, ToyTower(task.text_prototypes))
    other = Task(task.class_names, task.text_prototypes, 20.0, ToyTower(task.text_prototypes, seed=1))
    assert len({task.fingerprint, with_tower.fingerprint, other.fingerprint}) == 3


@pytest.fixture
def store(tmp_path):
    """Random image features, and the texts of a tiny CLIP."""
    pytest.importorskip("torch")
    from trimtab.encoders import load_encoder

    encoder = load_encoder(f"openai:{write_golden_clip(golden('tpt_rn_v16'), tmp_path)}")
    text = encoder.encode_texts([f"a photo of a {name}." for name in NAMES])
    random = np.random.default_rng(0)
    labels = np.arange(40) % 4
    return FeatureStore.from_arrays(
        tmp_path / "store",
        (text[labels] + random.normal(scale=0.2, size=(40, 32))).astype(np.float32),
        labels,
        text,
        NAMES,
        30.0,
        encoder=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
    )


def run_on(store, method="leaning"):
    return execute(Run(str(store.path), store.info.dataset, store.fingerprint, method))[0]


def test_bench_brings_the_tower_of_the_stores_encoder(store):
    import torch

    torch.set_num_threads(2)
    record = run_on(store)
    assert record.ok, record.reason
    assert torch.get_num_threads() == 2
    assert record.about.task_fingerprint == run_on(store, "zero_shot").about.task_fingerprint
    task = store.task({"text_tower"})
    assert task.text_tower is store.task({"text_tower"}).text_tower  # loaded once
    np.testing.assert_allclose(task.text_tower.features(task.text_tower.start), task.text_prototypes, atol=1e-5)
    assert store.task().text_tower is None
    toy = ToyTower(task.text_prototypes)
    assert store.task(Leaning.needs, text_tower=toy).text_tower is toy


def test_without_its_encoder_a_run_says_so_in_one_sentence(store, tmp_path):
    record = run_on(make_store(tmp_path / "imported"))
    assert record.reason == (
        "The method needs the text tower of the encoder that made the features, 'imported', which cannot be loaded "
        "here: There is no encoder 'imported'; the choices are lite, hf:<id or folder>, "
        "openai:<ViT-B/16, RN50, ... or file.pt>, openclip:<model>/<weights or file>, onnx:<folder>, "
        "maple:<file>+<encoder>."
    )
    changed = make_store(tmp_path / "changed", encoder=store.info.encoder)
    assert "has changed since" in run_on(changed).reason
    with pytest.raises(TrimtabError, match="holds features and no pixels"):
        store.task({"pixels"})


def test_records_depend_on_the_code_of_the_towers():
    assert {"trimtab.encoders.prompted.causal", "trimtab.encoders.prompted.tower"} <= modules_behind(Leaning)
    assert {"trimtab.encoders.maple.tuning", "trimtab.images.resample"} <= modules_behind(PromptAlign)
    assert not any(module.startswith("trimtab.encoders") for module in modules_behind(ZeroShot))


def test_the_demo_leaves_out_what_needs_more_than_features(tmp_path, monkeypatch):
    monkeypatch.setattr(race, "list_methods", lambda: ["zero_shot", "leaning", "tps"])
    assert list(race.run_methods(make_store(tmp_path / "store", images=90))) == ["zero_shot", "tps"]


class PromptedColors(ColorEncoder):
    def text_tower(self, class_names, *, words, position, context):
        return ToyTower(self.encode_texts(class_names))


def test_a_classifier_brings_the_tower_of_its_encoder():
    classifier = Classifier(PromptedColors(), NAMES, method="leaning")
    assert isinstance(classifier.task.text_tower, ToyTower)
    picture = np.full((30, 30, 3), (220, 30, 30), np.uint8)
    assert classifier.classify(picture)[0]["label"] == "red"
    assert Classifier(PromptedColors(), NAMES).task.text_tower is None
    with pytest.raises(TrimtabError, match="The encoder colors has no text tower that prompts can be learned through"):
        Classifier(ColorEncoder(), NAMES, method="leaning")
