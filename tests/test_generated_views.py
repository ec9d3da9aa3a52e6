"""Views that a generator made: from a folder or a function, behind the crops, and named when they are missing."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab import FeatureStore, TrimtabError
from trimtab.cli.main import app
from trimtab.data.folder import image_folder
from trimtab.features.encode import encode_images
from trimtab.images.generated import GeneratedFolder
from trimtab.images.views import resize_shorter_and_crop

NAMES = tuple(COLORS)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Two pictures of each color, and for each picture three of the next color, generated."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name, **_: ColorEncoder())
    monkeypatch.chdir(tmp_path)
    for number in range(8):
        name, other = NAMES[number % 4], NAMES[(number + 1) % 4]
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(colored(name, seed=number)).save(tmp_path / "photos" / name / f"p_{number}.png")
        # Half of them in subfolders as the pictures are, half in the folder itself.
        place = tmp_path / "generated" / (name if number % 2 else "")
        place.mkdir(parents=True, exist_ok=True)
        for i in (10, 2, 0):
            Image.fromarray(colored(other, seed=100 + i, noise=i)).save(place / f"p_{number}_{i}.png")
    return tmp_path / "photos"


def trimtab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_generated_views_follow_the_crops(photos):
    result = trimtab("encode", photos, "--views", 3, "--generated", "generated", "--generated-views", 2, "-o", "store")
    assert result.exit_code == 0, result.output
    store, plain = FeatureStore.open("store"), encode_images(image_folder(photos), ColorEncoder(), out="plain", views=3)
    assert store.views == 5
    assert store.fingerprint != plain.fingerprint
    np.testing.assert_array_equal(store.rows(slice(None))[:, :3], plain.rows(slice(None)))
    for row, identity in enumerate(store.ids):
        number = int(identity.split("_")[-1].removesuffix(".png"))
        for place, i in enumerate((0, 2), start=3):  # by their numbers, not by their letters
            expected = colored(NAMES[(number + 1) % 4], seed=100 + i, noise=i)
            feature = ColorEncoder().encode_images(resize_shorter_and_crop(expected, 24)[None])[0]
            np.testing.assert_allclose(store.rows(slice(None))[row, place], feature, atol=2e-3)


def test_any_function_is_a_source(photos):
    store = encode_images(
        image_folder(photos),
        ColorEncoder(),
        out="mirrored",
        generated=lambda identity, image: [image[:, ::-1]],
        generated_views=1,
    )
    assert store.views == 2


def test_an_image_without_enough_generated_views_is_named(photos, tmp_path):
    (tmp_path / "generated" / "p_0_2.png").unlink()
    store = encode_images(
        image_folder(photos), ColorEncoder(), out="store", generated=GeneratedFolder("generated"), generated_views=3
    )
    ((name, reason),) = store.skipped
    assert name.endswith("p_0.png")
    assert "has 2 generated views, but 3 are asked for" in reason


def test_wrong_folders_are_one_sentence(photos, tmp_path):
    with pytest.raises(TrimtabError, match="is not a folder"):
        GeneratedFolder("missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrimtabError, match="named <stem>_<i>"):
        GeneratedFolder("empty")
    with pytest.raises(TrimtabError, match="generated_views must be 1 or more"):
        encode_images(image_folder(photos), ColorEncoder(), out="s", generated=lambda *_: [], generated_views=0)
