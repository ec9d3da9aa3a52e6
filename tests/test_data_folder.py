"""A user's own images: class folders, manifests, plain folders, and everything that can be wrong with them."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_files import make_image
from trimtab.data.folder import image_folder, natural, unlabeled_images
from trimtab.errors import TrimtabError


def test_a_folder_per_class_in_natural_order(tmp_path, capsys):
    make_image(tmp_path / "10" / "b.JPG")
    make_image(tmp_path / "2" / "img10.png")
    make_image(tmp_path / "2" / "img9.jpeg", color=(0, 0, 250))
    make_image(tmp_path / "hot_dog" / "deeper" / "x.webp")
    images = image_folder(tmp_path)
    assert images.class_names == ("2", "10", "hot_dog")
    assert images.ids == ["2/img9.jpeg", "2/img10.png", "10/b.JPG", "hot_dog/deeper/x.webp"]
    assert images.labels.tolist() == [0, 0, 1, 2]
    assert images.labels.dtype == np.int64
    assert images.load(0).shape == (10, 12, 3)
    assert images.load(0)[5, 5, 2] > 200
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(images.load))(1), images.load(1))


@given(st.lists(st.text(alphabet="aB10_9", min_size=1), min_size=1, unique=True), st.randoms())
def test_natural_order_does_not_depend_on_the_listing(names, random):
    listed = random.sample(names, len(names))
    assert sorted(names, key=natural) == sorted(listed, key=natural)
    numbers = sorted((name for name in names if name.isdecimal()), key=natural)
    assert [int(number) for number in numbers] == sorted(int(number) for number in numbers)


def test_what_is_not_an_image_is_skipped_and_said(tmp_path, capsys):
    make_image(tmp_path / "cat" / "a.jpg")
    make_image(tmp_path / "dog" / "a.jpg")
    make_image(tmp_path / "stray.jpg")
    make_image(tmp_path / "cat" / ".hidden.jpg")
    (tmp_path / "cat" / "notes.txt").write_text("notes")
    (tmp_path / "__MACOSX").mkdir()
    images = image_folder(tmp_path)
    assert images.ids == ["cat/a.jpg", "dog/a.jpg"]
    said = capsys.readouterr().err
    assert "1 that are not images (such as notes.txt) and 2 hidden" in said
    assert "1 images that lie beside the class folders" in said


def test_links_back_to_a_parent_do_not_hang(tmp_path):
    make_image(tmp_path / "cat" / "a.jpg")
    make_image(tmp_path / "dog" / "a.jpg")
    (tmp_path / "cat" / "again").symlink_to(tmp_path / "cat", target_is_directory=True)
    assert len(image_folder(tmp_path)) == 2


def test_given_classes_fix_names_and_order(tmp_path):
    make_image(tmp_path / "dog" / "a.jpg")
    make_image(tmp_path / "cat" / "a.jpg")
    images = image_folder(tmp_path, class_names=["dog", "bird", "cat"])
    assert images.class_names == ("dog", "bird", "cat")
    assert dict(zip(images.ids, images.labels, strict=True)) == {"dog/a.jpg": 0, "cat/a.jpg": 2}
    with pytest.raises(TrimtabError, match="cat is not one of the 2 classes given"):
        image_folder(tmp_path, class_names=["dog", "bird"])


def test_wrong_folders_are_refused(tmp_path):
    with pytest.raises(TrimtabError, match="neither a folder nor a manifest"):
        image_folder(tmp_path / "missing")
    with pytest.raises(TrimtabError, match="There are no images"):
        image_folder(tmp_path)
    make_image(tmp_path / "cat" / "a.jpg")
    (tmp_path / "dog").mkdir()
    with pytest.raises(TrimtabError, match=r"dog holds no images \(1 of 2"):
        image_folder(tmp_path)
    make_image(tmp_path / "dog" / "a.jpg")
    make_image(tmp_path / "Dog_" / "a.jpg")
    with pytest.raises(TrimtabError, match="name the same class"):
        image_folder(tmp_path)
    make_image(tmp_path / "all" / "train" / "cat" / "a.jpg")
    make_image(tmp_path / "all" / "test" / "cat" / "a.jpg")
    with pytest.raises(TrimtabError, match="look like splits"):
        image_folder(tmp_path / "all")


def test_a_folder_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    make_image(tmp_path / "cat" / "a.jpg")
    listed = Path.iterdir

    def refuse(folder):
        if folder.name == "cat":
            raise PermissionError(13, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(TrimtabError, match="cat cannot be listed: Permission denied"):
        image_folder(tmp_path)


def test_images_without_labels(tmp_path):
    make_image(tmp_path / "b.jpg")
    make_image(tmp_path / "a.png")
    images = image_folder(tmp_path)
    assert images.ids == ["a.png", "b.jpg"]
    assert images.labels.tolist() == [-1, -1]
    assert images.class_names == ()
    make_image(tmp_path / "more" / "c.jpg")
    assert unlabeled_images(tmp_path, ["cat", "dog"]).ids == ["a.png", "b.jpg", "more/c.jpg"]


def write_manifest(folder, name, text):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8-sig")
    return folder / name


def test_a_csv_manifest_with_domains_and_an_unlabeled_row(tmp_path):
    for name in ("x/1.jpg", "x/2.jpg", "3.png"):
        make_image(tmp_path / name)
    path = write_manifest(
        tmp_path, "manifest.csv", "File,Label,domain\nx/2.jpg,dog,photo\n3.png,,sketch\nx/1.jpg,cat,photo\n"
    )
    for images in (image_folder(tmp_path), image_folder(path)):
        assert images.class_names == ("cat", "dog")
        assert images.ids == ["x/2.jpg", "3.png", "x/1.jpg"]
        assert images.labels.tolist() == [1, -1, 0]
        assert images.domains == ["photo", "sketch", "photo"]
        assert images.name == tmp_path.name
        assert images.load(1).shape == (10, 12, 3)


def test_a_jsonl_manifest_with_numbers_and_a_class_list(tmp_path):
    make_image(tmp_path / "1.jpg")
    outside = make_image(tmp_path / "elsewhere" / "2.jpg")
    rows = [{"file_name": "1.jpg", "label": 1}, {"file_name": str(outside), "label": 0}]
    folder = tmp_path / "set"
    folder.mkdir()
    (tmp_path / "1.jpg").rename(folder / "1.jpg")
    path = write_manifest(folder, "labels.jsonl", "\n".join(json.dumps(row) for row in rows))
    with pytest.raises(TrimtabError, match=r"labels of .* are numbers"):
        image_folder(path)
    (folder / "classes.txt").write_text("cat\ndog\n")
    images = image_folder(folder)
    assert images.labels.tolist() == [1, 0]
    assert images.ids == ["1.jpg", outside.as_posix()]
    path = path.rename(folder / "pets.jsonl")
    assert image_folder(path).name == "pets"
    assert image_folder(path, class_names=["ant", "bee", "cow"]).class_names == ("ant", "bee", "cow")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("m.csv", "path,label\n1.jpg,cat\nlost.jpg,dog\n", r"1 of 2 images .* not there, first .*lost.jpg \(row 3\)"),
        ("m.csv", "picture,label\n1.jpg,cat\n", "no column with paths"),
        ("m.csv", "path,label\n1.jpg,cat\n1.jpg,dog\n", "twice, in rows 2 and 3"),
        ("m.csv", "path,label\n,cat\n", "Row 2 of .* gives no path"),
        ("m.csv", "path,label\n", "lists no images"),
        ("m.jsonl", '{"path": "1.jpg"}\nnot json\n', "Row 2 of .* is not a JSON object"),
    ],
)
def test_wrong_manifests_name_the_row(tmp_path, name, text, said):
    make_image(tmp_path / "1.jpg")
    with pytest.raises(TrimtabError, match=said):
        image_folder(write_manifest(tmp_path, name, text))


def test_more_trouble_with_manifests(tmp_path):
    make_image(tmp_path / "1.jpg")
    path = write_manifest(tmp_path, "manifest.csv", "path,label\n1.jpg,wolf\n")
    with pytest.raises(TrimtabError, match="label 'wolf', which is not one of the 2 classes"):
        image_folder(path, class_names=["cat", "dog"])
    (tmp_path / "classes.txt").write_text("wolf\nwolf\n")
    with pytest.raises(TrimtabError, match="names a class twice"):
        image_folder(path)
    path.write_bytes(b"path,label\n1.jpg,\xff\xfe\n")
    with pytest.raises(TrimtabError, match="not UTF-8"):
        image_folder(path)
    write_manifest(tmp_path, "labels.csv", "path\n1.jpg\n")
    with pytest.raises(TrimtabError, match=r"holds manifest.csv and labels.csv"):
        image_folder(tmp_path)
