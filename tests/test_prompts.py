"""Prompts: what a class gets, and the prototypes made of it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import TrimtabError
from trimtab.methods import list_methods, method_class
from trimtab.prompts import TEMPLATE_SETS, prompts_for, read_cupl, templates_for, text_prototypes, words_of
from trimtab.prompts import prototypes as prototypes_module

FIFTEEN = {
    "caltech101", "dtd", "eurosat", "fgvc-aircraft", "flowers102", "food101", "oxford-pets", "stanford-cars", "sun397",
    "ucf101", "imagenet", "imagenet-a", "imagenet-r", "imagenet-sketch", "imagenet-v2",
}  # fmt: skip


class LetterEncoder:
    """A stand-in for a text tower: features that depend on the letters, lengths other than one, calls counted."""

    name = "letters"
    dim = 27
    input_size = 8
    logit_scale = 100.0

    def __init__(self, fingerprint: str = "letters-1") -> None:
        self.fingerprint = fingerprint
        self.texts: list[str] = []

    def encode_texts(self, texts):
        self.texts += texts
        counts = np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz "] for text in texts])
        return counts.astype(np.float32)

    def encode_images(self, pixels):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def test_every_method_has_templates_for_the_fifteen_sets():
    by_method = {name: method_class(name).templates for name in list_methods() if method_class(name).templates}
    prompt_tuning = {"tpt", "ctpt", "rtpt", "difftpt"}
    assert set(by_method) == {"mcp", "mcp_plus", "tda", "boostadapter", "dmn", "dpe", *prompt_tuning}
    for method, by_dataset in by_method.items():
        assert set(by_dataset) == FIFTEEN, method
        assert set(by_dataset.values()) <= set(TEMPLATE_SETS)


@pytest.mark.parametrize(
    ("method", "dataset", "count", "one"),
    [
        ("mcp", "dtd", 1, "{} texture."),
        ("mcp", "caltech101", 1, "a photo of a {}."),
        ("mcp", "imagenet-r", 7, "a origami {}."),
        ("tda", "caltech101", 7, "itap of a {}."),
        ("tda", "imagenet-sketch", 80, "a doodle of the {}."),
        ("dpe", "stanford-cars", 2, "a photo of a {}."),
        ("dmn", "stanford-cars", 1, "a photo of a {}, a type of car."),
        ("dmn", "imagenet-r", 7, "art of the {}."),
        ("mcp", "food101", 1, "a photo of {}, a type of food."),
    ],
)
def test_templates_of_the_papers(method, dataset, count, one):
    found = templates_for(method, dataset)
    assert len(set(found)) == len(found) == count
    assert one in found


def test_the_published_eighty_contain_the_seven():
    assert set(TEMPLATE_SETS["imagenet7"]) < set(TEMPLATE_SETS["imagenet80"])


def test_a_class_gets_its_words_in_every_template():
    got = prompts_for(["hot_dog", "missile", "missile #2", "{odd}"], ["a {}.", "one {c}, no {c}."])
    assert got["hot_dog"] == ("a hot dog.", "one hot dog, no hot dog.")
    assert got["missile #2"] == got["missile"] == ("a missile.", "one missile, no missile.")
    assert got["{odd}"][0] == "a {odd}."


@given(st.text(min_size=1).filter(lambda name: name.replace("_", " ").strip()))
def test_words_never_hold_underscores_or_double_spaces(name):
    words = words_of(name)
    assert "_" not in words
    assert "  " not in words
    assert words_of(words) == words or " #" in words


def test_templates_from_a_literal_and_from_files(tmp_path):
    assert templates_for("a sketch of {c}") == ("a sketch of {c}",)
    (tmp_path / "mine.txt").write_text("a {}.\n\nthe {}.\n")
    assert templates_for(str(tmp_path / "mine.txt")) == ("a {}.", "the {}.")
    (tmp_path / "mine.json").write_text('["a {}."]')
    assert templates_for(str(tmp_path / "mine.json")) == ("a {}.",)


@pytest.mark.parametrize(
    ("choice", "dataset", "said"),
    [
        ("a photo", None, "not a template set"),
        ("a photo of {class}", None, "mark the place"),
        ("a photo of {} and {x}", None, "mark the place"),
        (["no place"], None, "mark the place"),
        ([], None, "holds no templates"),
        ("tda", "groceries", "the data set is groceries"),
        ("tda", None, "is not known"),
    ],
)
def test_wrong_templates_are_refused(choice, dataset, said):
    with pytest.raises(TrimtabError, match=said):
        templates_for(choice, dataset)


def test_cupl_sentences_follow_the_templates_whatever_the_spelling(tmp_path):
    path = tmp_path / "cupl.json"
    path.write_text(json.dumps({"Hot Dog": ["A sausage in a bun."], "pizza": ["Flat and round.", "Cheese on dough."]}))
    got = prompts_for(["hot_dog", "pizza"], "photo", path)
    assert got == {
        "hot_dog": ("a photo of a hot dog.", "A sausage in a bun."),
        "pizza": ("a photo of a pizza.", "Flat and round.", "Cheese on dough."),
    }
    with pytest.raises(TrimtabError, match="no sentences for 1 of 2 classes, such as 'sushi'"):
        prompts_for(["pizza", "sushi"], "photo", path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "not JSON"),
        ("[1]", "JSON object"),
        ('{"a": []}', "must give 'a' a list of at least one"),
        ('{"a": "sentence"}', "must give 'a' a list of at least one"),
        ('{"a": [" "]}', "must give 'a' a list of at least one"),
    ],
)
def test_damaged_cupl_files_are_refused(tmp_path, text, said):
    (tmp_path / "cupl.json").write_text(text)
    with pytest.raises(TrimtabError, match=said):
        read_cupl(tmp_path / "cupl.json")


def test_cupl_trouble_is_named(tmp_path):
    with pytest.raises(TrimtabError, match="cannot be read"):
        read_cupl(tmp_path / "missing.json")
    with pytest.raises(TrimtabError, match="which name the same class"):
        prompts_for(["hot dog"], "photo", {"hot_dog": ["x"], "Hot-dog": ["y"]})
    with pytest.raises(TrimtabError, match="'cat' is named more than once"):
        prompts_for(["cat", "cat"], "photo")


def test_prototypes_are_the_normalized_mean_of_normalized_features():
    encoder = LetterEncoder()
    templates = ["a {}.", "a very very large photo of the {}."]
    cupl = {"cat": ["Cats purr.", "Cats purr."], "zebu": ["Humped cattle of the tropics."]}
    got = text_prototypes(encoder, ["cat", "zebu"], templates, cupl)
    assert got.dtype == np.float32
    for row, name in enumerate(["cat", "zebu"]):
        sentences = [f"a {name}.", f"a very very large photo of the {name}.", *cupl[name]]
        features = LetterEncoder().encode_texts(sentences)
        mean = (features / np.linalg.norm(features, axis=1, keepdims=True)).mean(axis=0)
        np.testing.assert_allclose(got[row], mean / np.linalg.norm(mean), atol=1e-6)


def test_prototypes_are_encoded_once_per_content():
    first = LetterEncoder()
    one = text_prototypes(first, ["cat", "dog"], "imagenet7")
    assert len(first.texts) == 14
    again = LetterEncoder()
    np.testing.assert_array_equal(text_prototypes(again, ["cat", "dog"], "imagenet7"), one)
    assert again.texts == []
    for encoder, names, templates in (
        (LetterEncoder("letters-2"), ["cat", "dog"], "imagenet7"),
        (LetterEncoder(), ["dog", "cat"], "imagenet7"),
        (LetterEncoder(), ["cat", "dog"], "photo"),
    ):
        text_prototypes(encoder, names, templates)
        assert encoder.texts


def test_a_damaged_cache_is_rebuilt(tmp_path):
    one = text_prototypes(LetterEncoder(), ["cat", "dog"], "photo")
    (kept,) = (tmp_path / "cache" / "text").glob("*.npy")
    for damage in (b"nonsense", kept.read_bytes()[:-20]):
        kept.write_bytes(damage)
        np.testing.assert_array_equal(text_prototypes(LetterEncoder(), ["cat", "dog"], "photo"), one)


def test_an_interrupted_run_continues_where_it_stopped(monkeypatch, tmp_path):
    monkeypatch.setattr(prototypes_module, "SENTENCES_AT_A_TIME", 1)
    names = [f"thing {number} of {'abcdefgh'[number]}" for number in range(8)]

    class Interrupted(LetterEncoder):
        def encode_texts(self, texts):
            if len(self.texts) == 5:
                raise KeyboardInterrupt
            return super().encode_texts(texts)

    with pytest.raises(KeyboardInterrupt):
        text_prototypes(Interrupted(), names, "photo")
    rest = LetterEncoder()
    got = text_prototypes(rest, names, "photo")
    assert len(rest.texts) == 3
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "another"))
    np.testing.assert_array_equal(got, text_prototypes(LetterEncoder(), names, "photo"))


def test_an_encoder_that_gives_nothing_is_refused():
    class Silent(LetterEncoder):
        def encode_texts(self, texts):
            return np.zeros((len(texts), self.dim), np.float32)

    with pytest.raises(TrimtabError, match=r"no usable feature for 'a photo of a cat\.'"):
        text_prototypes(Silent(), ["cat", "dog"], "photo")
