"""Stores of many files: sidecars, shards made one by one, URLs, clip-retrieval's folders and Parquet."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from test_encode import NAMES, contents, own_cache, pictures  # noqa: F401
from test_features import description, unit
from tiny_encoder import ColorEncoder, colored
from trimtab.cli.encode import encode as encode_verb
from trimtab.data.catalog import load_dataset
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore, FeatureWriter, layout
from trimtab.features.clip_retrieval import import_clip_retrieval, is_clip_retrieval
from trimtab.features.encode import encode_images
from trimtab.features.encode_shards import ShardedEncoding, encode_shards, parse_shard
from trimtab.features.encoding import plan_encoding
from trimtab.features.parquet import write_parquet
from trimtab.storage import folder_at


def spoiled(i):
    if i in (3, 8, 9, 10, 11, 20):
        raise TrimtabError(f"picture {i} is damaged")
    return colored(NAMES[i % 4], seed=i)


@pytest.fixture
def memory():
    """A fresh bucket of fsspec's memory."""
    import fsspec

    files = fsspec.filesystem("memory")
    files.store.clear()
    yield "memory://bucket"
    files.store.clear()


@pytest.mark.parametrize("shard_images", [None, 4])
@pytest.mark.parametrize("views", [1, 3])
def test_shards_made_one_by_one_are_the_bytes_of_one_machine(tmp_path, monkeypatch, shard_images, views):
    monkeypatch.setattr(layout, "VIEWS_PER_SHARD", 12)
    encoder = ColorEncoder()
    options = {"views": views, "seed": 3, "batch": 5}
    whole = encode_images(pictures(load=spoiled), encoder, out=tmp_path / "a", shard_images=shard_images, **options)
    plan = plan_encoding(pictures(load=spoiled), encoder, **options)
    assert encode_shards(plan, encoder, tmp_path / "b", shard_images=shard_images, only=(2, 3)) is None
    assert encode_shards(plan, encoder, tmp_path / "b", only=(1, 3)) is None
    with pytest.raises(TrimtabError, match="unfinished"):
        FeatureStore.open(tmp_path / "b")
    store = encode_shards(plan, encoder, tmp_path / "b", only=(3, 3))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert store.fingerprint == whole.fingerprint
    assert [name for name, _ in store.skipped] == [f"picture {i}" for i in (3, 8, 9, 10, 11, 20)]
    assert len(encoder.calls) > 0
    encoder.calls.clear()
    encode_shards(plan, encoder, tmp_path / "b")
    assert encoder.calls == []  # a finished store is only opened


def test_large_stores_list_no_image_in_their_manifest(tmp_path):
    plain = encode_images(pictures(load=spoiled), ColorEncoder(), out=tmp_path / "plain")
    large = encode_images(pictures(load=spoiled), ColorEncoder(), out=tmp_path / "large", shard_images=7)
    manifest = (tmp_path / "large" / "manifest.json").read_text()
    assert "picture 5" not in manifest
    assert '"version":2' in manifest
    assert '"version":1' in (tmp_path / "plain" / "manifest.json").read_text()
    again = FeatureStore.open(tmp_path / "large", verify=True)
    assert again.ids == plain.ids
    assert again.domains == plain.domains
    assert again.labels.tolist() == plain.labels.tolist()
    assert again.skipped == plain.skipped
    assert np.array_equal(np.asarray(again.features), np.asarray(plain.features))
    assert again.fingerprint == large.fingerprint
    assert again.info.ids[5] == plain.ids[5]
    assert again.info.ids[-1] == plain.ids[-1]
    assert list(again.info.labels[2:9]) == plain.labels[2:9].tolist()
    encode_images(pictures(load=spoiled), ColorEncoder(), out=tmp_path / "large")  # the same: nothing to do
    with pytest.raises(TrimtabError, match=r"images per shard \(7 there, 9 here\)"):
        encode_images(pictures(), ColorEncoder(), out=tmp_path / "large", shard_images=9)
    other = pictures(load=spoiled, ids=[f"photo {i}" for i in range(30)])
    with pytest.raises(TrimtabError, match="differs in labels, ids"):
        encode_images(replace(other, labels=other.labels[::-1].copy()), ColorEncoder(), out=tmp_path / "large")


def test_a_store_is_large_by_its_size(monkeypatch):
    info = description()
    assert layout.layout_for(info) == layout.Layout(1, 4096 // 3)
    monkeypatch.setattr(layout, "LARGE", 60)
    assert layout.layout_for(info) == layout.Layout(2, (128 << 20) // (3 * 16 * 2))


def test_damaged_sidecars_are_named(tmp_path):
    encode_images(pictures(), ColorEncoder(), out=tmp_path / "s", shard_images=7)
    labels, names = tmp_path / "s" / "shard-00001.labels.npy", tmp_path / "s" / "shard-00002.ids.json"
    names.write_bytes(names.read_bytes().replace(b"picture 15", b"picture 99"))
    store = FeatureStore.open(tmp_path / "s")
    with pytest.raises(TrimtabError, match=r"shard-00002.ids.json was changed after it was written"):
        store.ids  # noqa: B018
    with pytest.raises(TrimtabError, match=r"shard-00002.ids.json was changed"):
        store.verify()
    labels.unlink()
    with pytest.raises(TrimtabError, match=r"shard-00001.labels.npy is missing"):
        FeatureStore.open(tmp_path / "s")


def test_a_large_store_that_was_begun_on_one_machine_is_continued(tmp_path):
    whole = encode_images(pictures(), ColorEncoder(), out=tmp_path / "whole", shard_images=7)

    def load(i):
        if i == 17:
            raise KeyboardInterrupt
        return colored(NAMES[i % 4], seed=i)

    with pytest.raises(KeyboardInterrupt):
        encode_images(pictures(load=load), ColorEncoder(), out=tmp_path / "s", batch=1, workers=1, shard_images=7)
    encode_images(pictures(), ColorEncoder(), out=tmp_path / "s")  # with the shards that it was begun with
    assert contents(tmp_path / "s") == contents(whole.path)


def test_shards_with_damaged_records_or_files_are_made_again(tmp_path):
    plan, encoder = plan_encoding(pictures(), ColorEncoder()), ColorEncoder()
    whole = encode_shards(plan, encoder, tmp_path / "whole", shard_images=7)
    encode_shards(plan, encoder, tmp_path / "s", shard_images=7, only=(1, 2))
    with pytest.raises(TrimtabError, match="was begun shard by shard; continue it with --engine ray or with --shard"):
        encode_images(pictures(), encoder, out=tmp_path / "s")
    (tmp_path / "s" / "shard-00000.json").write_text("{}")
    (tmp_path / "s" / "shard-00002.npy").write_bytes(b"cut off")
    assert ShardedEncoding(plan, tmp_path / "s").missing == [0, 1, 2, 3]
    (tmp_path / "s" / ".shard-00001.npy.77-abcd.part").write_bytes(b"left by a kill")
    encode_shards(plan, encoder, tmp_path / "s")
    assert contents(tmp_path / "s") == contents(whole.path)


def test_another_stores_shards_are_never_mixed_in(tmp_path):
    encode_shards(
        plan_encoding(pictures(), ColorEncoder()), ColorEncoder(), tmp_path / "s", only=(1, 2), shard_images=7
    )
    with pytest.raises(TrimtabError, match=r"already holds other features: it differs in encoder fingerprint"):
        encode_shards(plan_encoding(pictures(), ColorEncoder("2")), ColorEncoder("2"), tmp_path / "s")
    with pytest.raises(TrimtabError, match=r"already holds other features: it differs in .*seed \(0 there, 1 here\)"):
        encode_shards(plan_encoding(pictures(), ColorEncoder(), seed=1), ColorEncoder(), tmp_path / "s")


@pytest.mark.parametrize("given", ["3", "0/4", "5/4", "a/b", "1/0", "", "1/2/3"])
def test_shards_of_jobs_are_numbered_from_one(given):
    assert parse_shard("3/16") == (3, 16)
    with pytest.raises(TrimtabError, match="--shard takes i/n, such as 3/16"):
        parse_shard(given)


def test_stores_and_images_behind_urls(tmp_path, memory):
    import fsspec

    files = fsspec.filesystem("memory")
    for i in range(12):
        path = tmp_path / f"{i}.png"
        Image.fromarray(colored(NAMES[i % 4], seed=i)).save(path)
        files.pipe_file(f"/photos/{NAMES[i % 4]}/{i}.png", path.read_bytes())
    files.pipe_file("/photos/red/notes.txt", b"not an image")
    images = load_dataset("memory://photos")
    assert images.name == "photos"
    assert images.class_names == tuple(sorted(NAMES))
    assert images.ids[:3] == ["blue/2.png", "blue/6.png", "blue/10.png"]
    local = encode_images(images, ColorEncoder(), out=tmp_path / "local", views=2, shard_images=5)
    remote = encode_images(images, ColorEncoder(), out=f"{memory}/features", views=2, shard_images=5)
    assert {name: files.cat_file(f"/bucket/features/{name}") for name in contents(tmp_path / "local")} == contents(
        tmp_path / "local"
    )
    assert not any(name.endswith(".part") for name in folder_at("x", f"{memory}/features").sizes())
    assert remote.path == "memory://bucket/features"
    assert remote.fingerprint == local.fingerprint
    for selection in (slice(3, 9), [11, 0, 5, 5, 6], [-1], []):
        assert np.array_equal(remote.rows(selection), local.rows(selection))
    assert remote.ids == local.ids
    remote.verify()
    files.rm_file("/bucket/features/shard-00001.npy")
    with pytest.raises(TrimtabError, match=r"memory://bucket/features/shard-00001.npy is missing"):
        FeatureStore.open(f"{memory}/features")
    with pytest.raises(TrimtabError, match="There is no feature store at memory://nowhere"):
        FeatureStore.open("memory://nowhere")
    with pytest.raises(TrimtabError, match="There are no images below memory://empty"):
        load_dataset("memory://empty")
    with pytest.raises(TrimtabError, match="nosuch:// is no protocol that fsspec knows"):
        FeatureStore.open("nosuch://bucket")
    files.pipe_file("/mixed/stray.png", b"")
    files.pipe_file("/mixed/red/1.png", b"")
    with pytest.raises(TrimtabError, match=r"holds class folders and beside them the image stray.png"):
        load_dataset("memory://mixed")


def test_file_urls_are_local(tmp_path):
    store = encode_images(pictures(), ColorEncoder(), out=f"file://{tmp_path}/s")
    assert store.path == tmp_path / "s"


def test_a_bucket_without_rights_is_one_sentence(memory, monkeypatch):
    import fsspec

    def denied(*_, **__):
        raise PermissionError("Accwed\nrequest id 17")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "pipe_file", denied)
    with pytest.raises(TrimtabError, match=r"may not be read or written with these credentials: Acc"):
        encode_images(pictures(), ColorEncoder(), out=f"{memory}/features")


def test_folders_of_clip_retrieval_are_imported_as_they_are(tmp_path):
    encoder, folder = ColorEncoder(), tmp_path / "embeddings"
    rows = unit(11, encoder.dim)
    for number, part in ((0, rows[:4]), (2, rows[4:9]), (10, rows[9:])):
        (folder / "img_emb").mkdir(parents=True, exist_ok=True)
        (folder / "metadata").mkdir(exist_ok=True)
        np.save(folder / "img_emb" / f"img_emb_{number}.npy", (3 * part).astype(np.float16))
        names = [f"/data/{number}/{i}.jpg" for i in range(len(part))]
        table = pa.table({"image_path": names, "caption": ["x"] * len(part)})
        pq.write_table(table, folder / "metadata" / f"metadata_{number}.parquet")
    assert is_clip_retrieval(str(folder))
    store = import_clip_retrieval(folder, NAMES, encoder, tmp_path / "s", dtype="float32", shard_images=4)
    assert store.ids[3:6] == ("/data/0/3.jpg", "/data/2/0.jpg", "/data/2/1.jpg")
    assert set(store.labels) == {-1}
    half = (3 * rows).astype(np.float16).astype(np.float32)
    assert np.allclose(store.rows(slice(None))[:, 0], half / np.linalg.norm(half, axis=1, keepdims=True), atol=1e-6)
    assert np.allclose(store.text_prototypes, encoder.encode_texts([f"a photo of a {name}." for name in NAMES]))
    pq.write_table(pa.table({"caption": ["x"] * 4}), folder / "metadata" / "metadata_0.parquet")
    with pytest.raises(TrimtabError, match="has no column image_path, key or url"):
        import_clip_retrieval(folder, NAMES, encoder, tmp_path / "t")
    (folder / "metadata" / "metadata_0.parquet").unlink()
    with pytest.raises(TrimtabError, match="holds metadata of some embeddings and not of others"):
        import_clip_retrieval(folder, NAMES, encoder, tmp_path / "t")
    np.save(folder / "img_emb" / "img_emb_0.npy", unit(4, 9))
    with pytest.raises(TrimtabError, match="have 9 dimensions, those of colors 28; name the encoder"):
        import_clip_retrieval(folder, NAMES, encoder, tmp_path / "t")


def test_parquet_holds_every_view(tmp_path):
    store = encode_images(pictures(), ColorEncoder(), out=tmp_path / "s", views=2)
    (file,) = write_parquet(store, tmp_path / "p")
    table = pq.read_table(file)
    assert table.num_rows == 60
    assert table["id"][3].as_py() == store.ids[1]
    assert table["view"].to_pylist()[:4] == [0, 1, 0, 1]
    assert table["domain"][2].as_py() == "night"
    assert table["class_name"][2].as_py() == store.class_names[store.labels[1]]
    assert np.allclose(table["embedding"][3].as_py(), store.rows([1])[0, 1])
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["features-00000.parquet"]


def test_jobs_from_the_command_line(tmp_path, capsys, monkeypatch):
    photos = tmp_path / "photos"
    for i in range(8):
        (photos / NAMES[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(colored(NAMES[i % 2], seed=i)).save(photos / NAMES[i % 2] / f"{i}.png")
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda *_, **__: ColorEncoder())
    out = tmp_path / "s"
    encode_verb(str(photos), out=str(out), shard="1/2", shard_images=3)
    assert "part 1/2 is made" in capsys.readouterr().out
    encode_verb(str(photos), out=str(out), shard="2/2", parquet=tmp_path / "p")
    assert "8 images" in capsys.readouterr().out
    assert len(pq.read_table(tmp_path / "p" / "features-00000.parquet")) == 8
    with pytest.raises(TrimtabError, match="with --engine ray leave it out"):
        encode_verb(str(photos), out=str(out), shard="2/2", engine="ray")
    with pytest.raises(TrimtabError, match="--engine is local or ray, not 'spark'"):
        encode_verb(str(photos), out=str(out), engine="spark")


def test_writers_of_made_features_refuse_urls():
    with pytest.raises(TrimtabError, match="go into a folder of this machine first"):
        FeatureWriter("s3://bucket/x", description(), unit(4, 16, seed=9))
