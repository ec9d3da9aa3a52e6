"""trimtab.pipeline: called like Hugging Face's, adapting as it is called."""

import numpy as np
import pytest
from PIL import Image

import trimtab
from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab import Classifier, TrimtabError

NAMES = list(COLORS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def made(**options):
    return trimtab.pipeline(model=ColorEncoder(), candidate_labels=NAMES, **options)


def test_one_image_gives_a_list_and_several_give_lists(tmp_path):
    classify, classifier = made(), Classifier(ColorEncoder(), NAMES)
    Image.fromarray(colored("blue", 2)).save(tmp_path / "blue.png")
    images = [colored("red", 1), tmp_path / "blue.png", str(tmp_path / "blue.png"), Image.open(tmp_path / "blue.png")]
    expected = [classifier.classify(image) for image in images]
    assert classify(images[0]) == expected[0]
    assert classify(images[1:]) == expected[1:]
    assert classify.classifier.seen == 4
    assert classify(iter([colored("red", 5)]))[0][0]["label"] == "red"
    found = classify(np.stack([colored("red", 1), colored("green", 1)]))
    assert [guesses[0]["label"] for guesses in found] == ["red", "green"]
    assert classify([]) == []


def test_the_best_few():
    assert len(made(top_k=2)(colored("red", 1))) == 2
    assert len(made(top_k=2)(colored("red", 1), top_k=3)) == 3


def test_a_hubs_id_is_one(monkeypatch):
    asked = []
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name: asked.append(name) or ColorEncoder())
    for model in ("openai/clip-vit-base-patch16", "onnx:folder", "lite"):
        trimtab.pipeline("zero-shot-image-classification", model, candidate_labels=NAMES)
    assert asked == ["hf:openai/clip-vit-base-patch16", "onnx:folder", "lite"]


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ("https://example.org/cat.jpg", "is an address, and trimtab fetches no images; save it to a file first"),
        ([colored("red", 1), "HTTP://example.org/cat.jpg"], "is an address"),
        ([colored("red", 1), "missing.png"], "missing.png cannot be read"),
        (None, "An image must be an array"),
        (7, "An image must be an array"),
        ({"image": 1}, "image"),
    ],
)
def test_a_refused_call_teaches_nothing(images, words):
    classify = made()
    with pytest.raises(TrimtabError, match=words):
        classify(images)
    assert classify.classifier.seen == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "text-generation"}, "task must be one of zero-shot-image-classification, not 'text-generation'"),
        ({"model": 3}, "encoder must be an encoder's name or an encoder, not 3"),
        ({"candidate_labels": "red,blue"}, "labels must be a list of names"),
        ({"candidate_labels": ["red", ""]}, "labels must hold names that are not empty"),
        ({"hypothesis_template": "a photo"}, "must mark the place of the class name"),
        ({"top_k": 0}, "top_k must be a whole number of at least 1"),
        ({"views": 1.5}, "views must be a whole number"),
    ],
)
def test_wrong_arguments_are_one_sentence(options, words):
    with pytest.raises(TrimtabError, match=words):
        trimtab.pipeline(**{"model": ColorEncoder(), "candidate_labels": NAMES, **options})
