"""Sets of other libraries: Hugging Face datasets and webdataset shards, written by those libraries themselves."""

import io
import json
import pickle

import numpy as np
import pytest
from PIL import Image

from trimtab.data.catalog import load_dataset
from trimtab.data.huggingface import from_huggingface
from trimtab.data.webdataset import from_webdataset
from trimtab.errors import TrimtabError

COLORS = [(250, 0, 0), (0, 250, 0), (0, 0, 250), (250, 250, 0)]


def picture(color) -> Image.Image:
    return Image.new("RGB", (12, 10), color)


def encoded(color) -> bytes:
    packed = io.BytesIO()
    picture(color).save(packed, "PNG")
    return packed.getvalue()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small data set with two splits, saved to disk by its own library."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "img": datasets.Image(),
            "id": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["red", "green", "blue"]),
        }
    )
    rows = {"img": [picture(c) for c in COLORS[:3]], "id": ["a", "b", "c"], "label": [0, 1, -1]}
    test = datasets.Dataset.from_dict(rows, features=features)
    folder = tmp_path_factory.mktemp("hf") / "colors"
    datasets.DatasetDict({"train": test.select([0]), "test": test}).save_to_disk(folder)
    return folder


def test_a_saved_hugging_face_set(saved):
    images = load_dataset(f"hf:{saved}")
    assert images.name == "colors"
    assert images.class_names == ("red", "green", "blue")
    assert images.labels.tolist() == [0, 1, -1]
    np.testing.assert_array_equal(images.load(1)[5, 5], [0, 250, 0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(images.load))(2)[0, 0], [0, 0, 250])
    assert len(load_dataset(f"hf:{saved}@train")) == 1
    with pytest.raises(TrimtabError, match="has the splits train, test; name one"):
        load_dataset(f"hf:{saved}@nonsense")


def test_hugging_face_sets_with_other_columns():
    datasets = pytest.importorskip("datasets")
    rows = {"image": [picture(c) for c in COLORS], "category": ["dog", "cat", None, "dog"]}
    named = datasets.Dataset.from_dict(rows).cast_column("image", datasets.Image())
    images = from_huggingface(named)
    assert images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [1, 0, -1, 1]
    numbers = named.remove_columns("category").add_column("label", [1, 0, 1, 1])
    with pytest.raises(TrimtabError, match="are numbers"):
        from_huggingface(numbers)
    assert from_huggingface(numbers, class_names=["x", "y"]).labels.tolist() == [1, 0, 1, 1]
    plain = from_huggingface(named.remove_columns("category"))
    assert plain.labels.tolist() == [-1] * 4
    with pytest.raises(TrimtabError, match="no image column; its columns are category"):
        from_huggingface(named.remove_columns("image"))


def test_a_hugging_face_set_that_cannot_be_opened(tmp_path):
    pytest.importorskip("datasets")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrimtabError, match="cannot be opened"):
        from_huggingface(tmp_path / "empty")


def write_shards(folder, records, per_shard=2):
    writer_of = pytest.importorskip("webdataset").TarWriter
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(records), per_shard):
        with writer_of(str(folder / f"{start // per_shard}.tar")) as writer:
            for number, record in enumerate(records[start : start + per_shard], start):
                writer.write({"__key__": f"s{number:04d}", **record})


def test_shards_with_class_numbers_and_a_list_of_names_above(tmp_path):
    records = [{"png": encoded(c), "cls": label} for c, label in zip(COLORS, [2, 0, 1, 2], strict=True)]
    write_shards(tmp_path / "colors" / "test", records, per_shard=1)
    with pytest.raises(TrimtabError, match="are numbers"):
        load_dataset(f"webdataset:{tmp_path}/colors")
    (tmp_path / "colors" / "classnames.txt").write_text("blue\ngreen\nred\n")
    images = load_dataset(f"webdataset:{tmp_path}/colors")
    assert images.name == "colors"
    assert images.class_names == ("blue", "green", "red")
    assert images.labels.tolist() == [2, 0, 1, 2]
    assert images.ids[0] == "0.tar/s0000"
    for index in (3, 0, 2):
        np.testing.assert_array_equal(images.load(index)[5, 5], COLORS[index])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(images.load))(1)[0, 0], COLORS[1])


def test_shards_with_named_labels_and_patterns(tmp_path):
    records = [
        {"png": encoded(COLORS[0]), "json": json.dumps({"label": "dog"}).encode()},
        {"png": encoded(COLORS[1]), "txt": "cat"},
        {"png": encoded(COLORS[2])},
        {"txt": "no image"},
    ]
    write_shards(tmp_path, records)
    images = from_webdataset(f"{tmp_path}/{{0..1}}.tar")
    assert images.class_names == ("cat", "dog")
    assert images.labels.tolist() == [1, 0, -1]
    assert len(from_webdataset(f"{tmp_path}/*.tar")) == 3
    assert len(from_webdataset(f"{tmp_path}/1.tar", class_names=["cat"])) == 1


def test_trouble_with_shards_is_named(tmp_path):
    with pytest.raises(TrimtabError, match=r"no \.tar shards"):
        from_webdataset(tmp_path)
    (tmp_path / "bad.tar").write_bytes(b"this is no archive" * 100)
    with pytest.raises(TrimtabError, match=r"bad\.tar is not a complete, uncompressed tar"):
        from_webdataset(tmp_path)
    write_shards(tmp_path / "damaged", [{"png": b"no picture", "txt": "cat"}])
    with pytest.raises(TrimtabError, match=r"0\.tar/s0000 is not an image"):
        from_webdataset(tmp_path / "damaged").load(0)
    write_shards(tmp_path / "empty", [{"txt": "cat"}])
    with pytest.raises(TrimtabError, match="hold no images"):
        from_webdataset(tmp_path / "empty")
