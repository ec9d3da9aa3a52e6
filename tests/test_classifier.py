"""Classifier: any kind of image in, labels and scores out, adapting, saved and continued."""

import copy
import io

import numpy as np
import pytest
from PIL import Image

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.classifier import Classifier
from trimtab.errors import TrimtabError
from trimtab.guard.rules import Guard
from trimtab.methods import make_method

NAMES = tuple(COLORS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))


def pictures(count=40):
    return [colored(NAMES[i % 4], seed=i, noise=120) for i in range(count)]


def test_output_has_the_shape_of_hugging_faces_pipelines():
    guesses = Classifier(ColorEncoder(), NAMES).classify(colored("blue", 1))
    assert [set(guess) for guess in guesses] == [{"label", "score"}] * 4
    assert guesses[0]["label"] == "blue"
    assert [guess["score"] for guess in guesses] == sorted((guess["score"] for guess in guesses), reverse=True)
    assert sum(guess["score"] for guess in guesses) == pytest.approx(1, abs=1e-5)
    assert isinstance(guesses[0]["score"], float)
    assert len(Classifier(ColorEncoder(), NAMES).classify(colored("blue", 1), top=2)) == 2


def test_every_kind_of_image_is_the_same_image(tmp_path):
    pixels = colored("green", 3)
    file = tmp_path / "green.png"
    Image.fromarray(pixels).save(file)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert("RGBA").save(buffer, "PNG")
    kinds = [pixels, file, str(file), file.read_bytes(), buffer.getvalue(), Image.open(file), pixels[::1, ::1]]
    found = [Classifier(ColorEncoder(), NAMES, views=3).classify(kind) for kind in kinds]
    assert all(guesses == found[0] for guesses in found)


def test_it_adapts_as_the_method_does():
    encoder, classifier = ColorEncoder(), Classifier(ColorEncoder(), NAMES, views=2, guard=False)
    stream = make_method("keel").start(classifier.task)
    plain = Classifier(encoder, NAMES, method="zero_shot", views=2)
    differences = 0
    for number, picture in enumerate(pictures()):
        features = plain.features(picture)
        scores = {guess["label"]: guess["score"] for guess in classifier.classify(picture)}
        expected = stream.step(features).probabilities
        assert [scores[name] for name in NAMES] == pytest.approx(expected.tolist())
        differences += plain.classify(picture)[0]["score"] != classifier.classify(picture)[0]["score"]
        stream.step(features)
        assert classifier.seen == 2 * number + 2
    assert differences > 0


def test_looking_and_learning_can_be_two_steps():
    whole, parted = Classifier(ColorEncoder(), NAMES), Classifier(ColorEncoder(), NAMES)
    for number, picture in enumerate(pictures()):
        features = parted.features(picture)
        assert parted.seen == number
        assert parted.classify_features(features, top=2) == whole.classify(picture, top=2)


def test_crops_depend_on_the_image_and_the_seed_alone():
    classifier = Classifier(ColorEncoder(), NAMES, views=4)
    first = classifier.features(colored("red", 1))
    classifier.classify(colored("blue", 2))
    assert np.array_equal(classifier.features(colored("red", 1)), first)
    assert not np.array_equal(Classifier(ColorEncoder(), NAMES, views=4, seed=1).features(colored("red", 1)), first)


def test_what_cannot_be_read_teaches_nothing(tmp_path):
    classifier = Classifier(ColorEncoder(), NAMES)
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8 nothing")
    before = classifier.stream.copy().arrays()
    for wrong in (tmp_path / "broken.jpg", tmp_path / "missing.png", np.zeros((4, 4)), 17, None):
        with pytest.raises(TrimtabError):
            classifier.classify(wrong)
    assert classifier.seen == 0
    assert all(np.array_equal(array, before[name]) for name, array in classifier.stream.arrays().items())


def test_a_pillow_image_that_cannot_be_read_is_passed_over():
    whole = io.BytesIO()
    Image.fromarray(colored("red", 1)).save(whole, "JPEG")
    wrong = Image.open(io.BytesIO(whole.getvalue()[:-300]))
    classifier, told = Classifier(ColorEncoder(), NAMES), []
    answers = list(
        classifier.classify_many(
            [colored("red", 2), wrong, colored("blue", 3)], unreadable=lambda *both: told.append(both)
        )
    )
    assert [guesses[0]["label"] for _, guesses in answers] == ["red", "blue"]
    assert [image for image, _ in told] == [wrong]
    assert classifier.seen == 2


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path):
    whole = Classifier(ColorEncoder(), NAMES)
    expected = [whole.classify(picture) for picture in pictures()]
    first = Classifier(ColorEncoder(), NAMES)
    found = [first.classify(picture) for picture in pictures()[:25]]
    first.save(tmp_path / "state")
    second = Classifier(ColorEncoder(), NAMES).load(tmp_path / "state")
    assert second.seen == 25
    found += [second.classify(picture) for picture in pictures()[25:]]
    assert found == expected
    second.reset()
    assert second.seen == 0
    assert second.classify(pictures()[0]) == expected[0]


class WarmerEncoder(ColorEncoder):
    logit_scale = 5.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": NAMES[::-1]}, "other classes"),
        ({"encoder": WarmerEncoder()}, "other text prototypes"),
        ({"method": "zero_shot"}, "was saved by keel"),
        ({"labels": [*NAMES, "purple"]}, "other classes"),
    ],
)
def test_a_state_of_something_else_is_refused(tmp_path, options, words):
    Classifier(ColorEncoder(), NAMES).save(tmp_path / "state")
    other = Classifier(**{"encoder": ColorEncoder(), "labels": NAMES, **options})
    with pytest.raises(TrimtabError, match=words):
        other.load(tmp_path / "state")


@pytest.mark.parametrize("copied", [Classifier.copy, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("options", [{}, {"views": 4, "view_budget": 2}])
def test_a_copy_learns_for_itself(copied, options):
    classifier = Classifier(ColorEncoder(), NAMES, **options)
    for picture in pictures()[:10]:
        classifier.classify(picture)
    other = copied(classifier)
    expected = [other.classify(picture) for picture in pictures()[10:20]]
    assert (classifier.seen, other.seen) == (10, 20)
    assert [classifier.classify(picture) for picture in pictures()[10:20]] == expected
    assert other.encoder is classifier.encoder


def test_a_classifier_says_what_it_is():
    classifier = Classifier(ColorEncoder(), NAMES)
    classifier.classify(pictures()[0])
    expected = f"<Classifier: {ColorEncoder.name}, keel, {len(NAMES)} labels, 1 seen>"
    assert repr(classifier) == expected


class OneRowForAll(ColorEncoder):
    def encode_images(self, pixels):
        return super().encode_images(pixels).mean(axis=0)

    def encode_texts(self, texts):
        return ColorEncoder().encode_texts(texts)


class OneTextForAll(ColorEncoder):
    def encode_texts(self, texts):
        return super().encode_texts(texts)[:1]


def test_an_encoder_of_ones_own_that_gives_other_shapes_is_told_which():
    says = r"encode_images gave an array of shape \(\d+,\) for 4 images; it must give \(4, d\)"
    for answer in (lambda c: c.classify(pictures()[0]), lambda c: list(c.classify_many(pictures()[:1]))):
        classifier = Classifier(OneRowForAll(), NAMES, views=4)
        with pytest.raises(TrimtabError, match=says):
            answer(classifier)
        assert classifier.seen == 0
    with pytest.raises(TrimtabError, match=r"encode_texts gave an array of shape \(1, 28\) for 4 texts; it must give"):
        Classifier(OneTextForAll("texts not kept yet"), NAMES)
    with pytest.raises(TrimtabError, match="must be an encoder's name or an encoder, not the class ColorEncoder"):
        Classifier(ColorEncoder, NAMES)


def test_labels_that_are_read_alike_are_told(caplog):
    Classifier(ColorEncoder(), ["red", "green", "red_", "green #2", "blue"])
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "The encoder reads 'red' and 'red_' alike, so it cannot tell them apart; leave one out."
    ]


@pytest.mark.parametrize(
    ("saved", "asked", "words"),
    [
        ({}, {"guard": False}, r"saved with a guard, and keeps it; leave out guard=False \(--no-guard\)"),
        ({}, {"unknown": "auto"}, "never answers 'none of these'"),
        ({"guard": False}, {"unknown": "auto"}, "never answers 'none of these'"),
        ({}, {"guard": Guard(quota=0)}, r"saved with Guard\(.*quota=0.25.* used with Guard\(.*quota=0"),
        ({"guard": False}, {"guard": Guard()}, "saved with no guard"),
        ({}, {}, None),
        ({"guard": False}, {}, None),
        ({"unknown": "auto"}, {}, None),
        ({"guard": Guard(quota=0), "unknown": "auto"}, {"guard": Guard(quota=0), "unknown": "auto"}, None),
    ],
)
def test_a_state_is_refused_where_another_guard_was_asked_for(tmp_path, saved, asked, words):
    before = Classifier(ColorEncoder(), NAMES, **saved)
    before.save(tmp_path / "state")
    classifier = Classifier(ColorEncoder(), NAMES, **asked)
    if words is None:
        assert classifier.load(tmp_path / "state").stream.guard == before.stream.guard
        return
    with pytest.raises(TrimtabError, match=words):
        classifier.load(tmp_path / "state")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"labels": "red,green"}, r"must be a list of names; give \['red', 'green'\]"),
        ({"labels": ["red"]}, "at least two labels"),
        ({"labels": ["red", "red"]}, "more than once"),
        ({"encoder": "nonsense"}, "no encoder 'nonsense'"),
        ({"method": "nonsense"}, "no method 'nonsense'"),
        ({"views": 0}, "views must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments_are_one_sentence(options, words):
    with pytest.raises(TrimtabError, match=words):
        Classifier(**{"encoder": ColorEncoder(), "labels": NAMES, **options})


def test_a_method_with_parameters_of_ones_own():
    classifier = Classifier(ColorEncoder(), NAMES, method=make_method("mcp", entropy_slots=2))
    assert classifier.stream.method.parameters()["entropy_slots"] == 2
