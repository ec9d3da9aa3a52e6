"""The paper's 15 sets: the table, tiny copies of every layout on disk, and what can be wrong with them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from image_files import make_image
from trimtab import MCP
from trimtab.data.catalog import CATALOG, FREE_SETS, find_entry, find_folder, how_to_lay_out, load_dataset, missing_part
from trimtab.data.catalog import disk as catalog_disk
from trimtab.data.catalog.layouts import class_names_by_id
from trimtab.errors import TrimtabError
from trimtab.prompts import TEMPLATE_SETS

PAPER = {  # title -> classes, test images: the paper's table of data sets
    "Caltech101": (100, 2465), "DTD": (47, 1692), "EuroSAT": (10, 8100), "FGVCAircraft": (100, 3333),
    "Flowers102": (102, 2463), "Food101": (101, 30300), "ImageNet": (1000, 50000), "OxfordPets": (37, 3669),
    "StanfordCars": (196, 8041), "SUN397": (397, 19850), "UCF101": (101, 3783), "ImageNet-V2": (1000, 10000),
    "ImageNet-A": (200, 7500), "ImageNet-R": (200, 30000), "ImageNet-S": (1000, 50889),
}  # fmt: skip
IDS = list(class_names_by_id(catalog_disk.Path("/nowhere"), catalog_disk.Path("/nowhere")))


def test_the_table_is_the_papers():
    assert {e.title: (e.classes, e.test_size) for e in CATALOG} == PAPER
    assert {e.name: e.templates for e in CATALOG} == dict(MCP.templates)
    assert all(free.templates in TEMPLATE_SETS for free in FREE_SETS.values())
    plain = [catalog_disk._plain(known) for e in CATALOG for known in {e.name, e.title, *e.aliases}]
    known_once = [e.name for e in CATALOG if find_entry(e.name) is e and find_entry(e.title) is e]
    assert len(known_once) == 15
    assert all(find_entry(alias) is e for e in CATALOG for alias in e.aliases)
    assert not set(plain) & {catalog_disk._plain(name) for name in FREE_SETS}


@pytest.mark.parametrize("written", ["Food-101", "food_101", "FOOD101", "food"])
def test_names_are_found_however_they_are_written(written):
    assert find_entry(written).name == "food101"


def lay_out_split(root, entry, classes=None, folder=None):
    """A tiny copy of a set in CoOp's layout: one or two images per class, in the order of the split file."""
    place = root / (folder or entry.folders[0])
    images = place / entry.images[0]
    source = make_image(root / "pixel.jpg")
    rows = []
    for label in reversed(range(classes or entry.classes)):
        for number in range(1 + label % 2):
            file = f"class_{label}/image_{number}.jpg"
            (images / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, images / file)
            rows.append([file, label, f"class_{label}"])
    split = {"train": [["x.jpg", 0, "class_0"]], "val": [], "test": rows}
    (place / entry.split_file).write_text(json.dumps(split))
    return place


@pytest.mark.parametrize("entry", [e for e in CATALOG if e.layout == "split"], ids=lambda e: e.name)
def test_split_layouts(entry, tmp_path, capsys):
    place = lay_out_split(tmp_path, entry)
    images = load_dataset(entry.title, tmp_path)
    assert images.name == entry.name
    assert images.templates == entry.templates
    assert len(images.class_names) == entry.classes
    for name, label in zip(images.ids, images.labels, strict=True):
        assert name.startswith(f"{images.class_names[label]}/")
    assert images.load(0).shape == (10, 12, 3)
    said = " ".join(capsys.readouterr().err.split())
    assert f"holds {len(images):,} test images; the paper's {entry.title} has {entry.test_size:,}" in said
    assert find_folder(entry, tmp_path) == place
    assert entry.split_file in how_to_lay_out(entry)


def test_a_folder_is_found_under_another_spelling_and_the_count_is_quiet_when_right(tmp_path, monkeypatch, capsys):
    entry = find_entry("eurosat")
    lay_out_split(tmp_path, entry, folder="Euro_SAT")
    right = tuple(replace(e, test_size=15) if e is entry else e for e in CATALOG)
    monkeypatch.setattr(catalog_disk, "CATALOG", right)
    assert len(load_dataset("eurosat", tmp_path)) == 15
    assert capsys.readouterr().err == ""


def test_trouble_with_splits_is_named(tmp_path):
    entry = find_entry("eurosat")
    with pytest.raises(TrimtabError, match="lacks a folder eurosat"):
        load_dataset("eurosat", tmp_path)
    place = lay_out_split(tmp_path, entry, classes=9)
    with pytest.raises(TrimtabError, match="holds 9 classes but EuroSAT has 10"):
        load_dataset("eurosat", tmp_path)
    lay_out_split(tmp_path, entry)
    (place / "2750" / "class_3" / "image_1.jpg").unlink()
    with pytest.raises(TrimtabError, match=r"1 of the 15 test images of EuroSAT are missing.*class_3/image_1\.jpg"):
        load_dataset("eurosat", tmp_path)
    split = place / entry.split_file
    rows = json.loads(split.read_text())["test"]
    for damage, said in (
        ("{}", "not a split file"),
        (json.dumps({"test": []}), "lists no test images"),
        (json.dumps({"test": [[rows[0][0], 0, "a"], [rows[1][0], 0, "b"]]}), "two names"),
        (json.dumps({"test": [[rows[0][0], 7, "a"]]}), "not numbered"),
    ):
        split.write_text(damage)
        with pytest.raises(TrimtabError, match=said):
            load_dataset("eurosat", tmp_path)
    split.unlink()
    assert missing_part(entry, place) == entry.split_file
    with pytest.raises(TrimtabError, match=r"lacks split_zhou_EuroSAT\.json; `trimtab data eurosat`"):
        load_dataset("eurosat", tmp_path)


@pytest.mark.parametrize("inside", ["", "data"])
def test_aircraft_as_its_authors_unpack_it(tmp_path, inside):
    place = tmp_path / "fgvc_aircraft" / inside
    names = [f"{700 + number}-{number}00 / x" for number in range(100)]
    files = [(f"{1000 - number:07d}", names[number]) for number in range(100)]
    for image, _ in files:
        make_image(place / "images" / f"{image}.jpg")
    (place / "variants.txt").write_text("\n".join(names))
    (place / "images_variant_test.txt").write_text("\n".join(f"{image} {name}" for image, name in files))
    images = load_dataset("aircraft", tmp_path)
    assert images.class_names == tuple(names)
    assert images.labels.tolist() == list(range(100))
    assert images.ids[0] == "0001000.jpg"
    (place / "images_variant_test.txt").write_text("0001000 Concorde")
    with pytest.raises(TrimtabError, match="names the variant 'Concorde'"):
        load_dataset("aircraft", tmp_path)


def lay_out_imagenet(place, folders):
    source = make_image(place.parent / "pixel.jpg")
    for number, folder in enumerate(folders):
        (place / folder).mkdir(parents=True)
        shutil.copy(source, place / folder / f"{number}.JPEG")


def test_imagenet_val_takes_names_from_classnames_txt_and_tells_equal_ones_apart(tmp_path):
    lay_out_imagenet(tmp_path / "imagenet" / "images" / "val", IDS)
    built_in = load_dataset("imagenet", tmp_path)
    assert built_in.class_names[:2] == ("tench", "goldfish")
    assert built_in.class_names[21] == "kite (bird of prey)"
    assert built_in.class_names[657] == "missile"
    assert built_in.class_names[744] == "missile #2"
    assert built_in.labels.tolist() == list(range(1000))
    lines = [f"{wordnet_id} name of {number}" for number, wordnet_id in enumerate(IDS)]
    (tmp_path / "imagenet" / "classnames.txt").write_text("\n".join(reversed(lines)))
    assert load_dataset("I", tmp_path).class_names[999] == "name of 999"
    (tmp_path / "imagenet" / "classnames.txt").write_text("n01440764 tench\n")
    with pytest.raises(TrimtabError, match="must hold 1,000 lines"):
        load_dataset("imagenet", tmp_path)


def test_imagenet_v2_folders_are_numbers_not_text(tmp_path):
    lay_out_imagenet(
        tmp_path / "imagenetv2" / "imagenetv2-matched-frequency-format-val", [str(number) for number in range(1000)]
    )
    images = load_dataset("imagenet-v2", tmp_path)
    assert images.labels.tolist() == list(range(1000))
    assert images.ids[:12:5] == ["0/0.JPEG", "5/5.JPEG", "10/10.JPEG"]
    assert images.class_names[10] == "brambling"


@pytest.mark.parametrize(("name", "folder"), [("imagenet-a", "imagenet-adversarial/imagenet-a"),
                                              ("imagenet-r", "imagenet-rendition/imagenet-r"),
                                              ("imagenet-r", "imagenet-r")])  # fmt: skip
def test_subsets_take_their_classes_from_the_folders(tmp_path, name, folder):
    chosen = IDS[4::5]
    lay_out_imagenet(tmp_path / folder, chosen)
    (tmp_path / folder / "README.txt").write_text("about")
    (tmp_path / "imagenet").mkdir()
    lines = [f"{wordnet_id} n{number}" for number, wordnet_id in enumerate(IDS)]
    (tmp_path / "imagenet" / "classnames.txt").write_text("\n".join(lines))
    images = load_dataset(name, tmp_path)
    assert images.class_names == tuple(f"n{number}" for number in range(4, 1000, 5))
    assert images.labels.tolist() == list(range(len(images)))


def test_trouble_with_imagenet_folders_is_named(tmp_path):
    val = tmp_path / "imagenet" / "val"
    for number in range(3):
        make_image(val / f"ILSVRC2012_val_{number}.jpg")
    assert missing_part(find_entry("imagenet"), tmp_path / "imagenet") == "class folders in images/val"
    with pytest.raises(TrimtabError, match="lie in one folder; sort them"):
        load_dataset("imagenet", tmp_path)
    shutil.rmtree(val)
    with pytest.raises(TrimtabError, match=r"holds no class folders \(n01440764"):
        load_dataset("imagenet", tmp_path)
    lay_out_imagenet(tmp_path / "imagenet-sketch" / "images", IDS[:999])
    with pytest.raises(TrimtabError, match="holds 999 classes but ImageNet-S has 1000"):
        load_dataset("imagenet-sketch", tmp_path)
    (tmp_path / "imagenet-sketch" / "images" / IDS[999]).mkdir()
    with pytest.raises(TrimtabError, match=r"1 class folders of .* hold no images"):
        load_dataset("imagenet-sketch", tmp_path)
    make_image(tmp_path / "imagenet-sketch" / "images" / "mystery" / "a.jpg")
    with pytest.raises(TrimtabError, match="mystery is not a class of ImageNet"):
        load_dataset("imagenet-sketch", tmp_path)


def test_the_users_own_by_name(tmp_path):
    make_image(tmp_path / "a+b" / "cat" / "1.jpg")
    make_image(tmp_path / "a+b" / "dog" / "1.jpg")
    assert load_dataset(f"folder:{tmp_path}/a+b").class_names == ("cat", "dog")
    assert load_dataset(f"{tmp_path}/a+b").class_names == ("cat", "dog")
    assert (load_dataset(f"unlabeled:{tmp_path}/a+b").labels == -1).all()


def test_unknown_names_and_missing_roots_are_refused(tmp_path):
    with pytest.raises(TrimtabError, match=r"no data set 'imagnet'; choose one of caltech101.*folder:\.\.\."):
        load_dataset("imagnet")
    with pytest.raises(TrimtabError, match="Food101 must lie on your disk"):
        load_dataset("food101")
    with pytest.raises(TrimtabError, match="CIFAR-100 must lie on your disk"):
        load_dataset("cifar100")


def test_imagenet_names_are_those_of_a_thousand_ascending_ids():
    assert len(IDS) == 1000
    assert sorted(IDS) == IDS
    np.testing.assert_array_equal([IDS[0], IDS[999]], ["n01440764", "n15075141"])
