"""`trimtab encode` as a stranger types it."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.cli.main import app
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.images.decode import decode
from trimtab.images.views import make_views

NAMES = tuple(COLORS)


@pytest.fixture
def photo_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name, **_: ColorEncoder())
    monkeypatch.chdir(tmp_path)
    for number in range(20):
        name = NAMES[number % 4]
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(colored(name, seed=number)).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def trimtab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_folder_becomes_a_store(photo_folder, tmp_path):
    (photo_folder / "red" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no")
    result = trimtab("encode", photo_folder, "--views", 2, "--verify")
    assert result.exit_code == 0, result.output
    assert "could not be read: 1" in result.stderr
    assert "broken.jpg" in result.stderr
    assert "All checksums match" in result.stderr
    assert "zero-shot accuracy of the plain view: 100.00% (chance 25" in result.stdout
    store = FeatureStore.open(tmp_path / "features" / "photos-lite-2")
    assert len(store) == 20
    assert sorted(store.class_names) == sorted(NAMES)
    first = store.ids[0]
    expected = ColorEncoder().encode_images(make_views(decode(photo_folder / first), 24, 1, seed=0))
    assert np.abs(store.rows([0])[0, 0].astype(np.float32) - expected[0]).max() < 1e-3


def test_unlabeled_folders_need_labels(photo_folder, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for file in photo_folder.rglob("*.png"):
        (flat / file.name).write_bytes(file.read_bytes())
    result = trimtab("encode", flat, "-o", tmp_path / "s")
    assert isinstance(result.exception, TrimtabError)
    assert "--labels" in str(result.exception)
    result = trimtab("encode", flat, "-o", tmp_path / "s", "--labels", "red, green,blue,yellow")
    assert result.exit_code == 0, result.output
    store = FeatureStore.open(tmp_path / "s")
    assert (store.labels == -1).all()
    assert store.class_names == ("red", "green", "blue", "yellow")
    assert "accuracy" not in result.stdout
    (tmp_path / "names.txt").write_text("red\n\ngreen\nblue\nyellow\n")
    again = trimtab("encode", flat, "-o", tmp_path / "s", "--labels-file", tmp_path / "names.txt")
    assert again.exit_code == 0, again.output
    wrong = trimtab("encode", photo_folder, "--labels", "red,green")
    assert "classes of its own" in str(wrong.exception)


def test_the_folder_of_all_data_sets_can_come_from_the_environment(photo_folder, tmp_path, monkeypatch):
    assert "--root" in str(trimtab("encode", "eurosat").exception)
    monkeypatch.setenv("TRIMTAB_DATA", str(tmp_path))
    error = trimtab("encode", "eurosat").exception
    assert isinstance(error, TrimtabError)
    assert str(tmp_path) in str(error)


def test_shuffled_labels_stop_with_an_explanation(photo_folder, tmp_path):
    for name in NAMES:
        (photo_folder / name).rename(photo_folder / f"_{name}")
    for name, other in zip(NAMES, NAMES[1:] + NAMES[:1], strict=True):
        (photo_folder / f"_{name}").rename(photo_folder / other)
    result = trimtab("encode", photo_folder, "-o", tmp_path / "s")
    assert isinstance(result.exception, TrimtabError)
    assert "labels look shuffled" in str(result.exception)


def test_npz_and_stores_as_data(photo_folder, tmp_path):
    encoder = ColorEncoder()
    np.savez(
        tmp_path / "others.npz",
        features=encoder.encode_images(np.stack([colored(n, 1, 24, 24) for n in NAMES * 5])),
        labels=np.arange(20) % 4,
        text=encoder.encode_texts(NAMES),
        class_names=np.array(NAMES),
    )
    result = trimtab("encode", tmp_path / "others.npz", "-o", tmp_path / "s")
    assert result.exit_code == 0, result.output
    assert "20 images x 1 view x 28" in result.stdout
    wrong = trimtab("encode", tmp_path / "others.npz", "-o", tmp_path / "t", "--views", 3, "--labels", "a,b")
    assert str(wrong.exception).endswith("give --views, --labels only with images.")
    assert not (tmp_path / "t").exists()
    assert trimtab("encode", tmp_path / "s", "--verify").exit_code == 0
    shard = tmp_path / "s" / "shard-00000.npy"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x7f")
    assert "was changed" in str(trimtab("encode", tmp_path / "s", "--verify").exception)
