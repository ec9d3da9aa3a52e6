"""Images and stores in a bucket of Google's kind: an emulator of the service on this machine, through gcsfs."""

import socket

import pytest
from PIL import Image

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.data import load_dataset
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.features.encode import encode_images

emulator = pytest.importorskip("gcp_storage_emulator.server")


@pytest.fixture
def bucket(monkeypatch):
    """Files of the bucket `trim`, as another program sees them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = emulator.create_server("127.0.0.1", port, in_memory=True, default_bucket="trim")
    server.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # it would ask by gRPC, which the emulator lacks
    gcsfs = pytest.importorskip("gcsfs")
    gcsfs.GCSFileSystem.clear_instance_cache()
    yield gcsfs.GCSFileSystem()
    gcsfs.GCSFileSystem.clear_instance_cache()
    server.stop()


def test_a_bucket_holds_images_and_features(bucket, tmp_path):
    for number in range(12):
        name, path = list(COLORS)[number % 4], tmp_path / f"{number}.png"
        Image.fromarray(colored(name, seed=number)).save(path)
        bucket.pipe(f"trim/photos/{name}/{number}.png", path.read_bytes())
    images = load_dataset("gs://trim/photos")
    assert images.class_names == tuple(sorted(COLORS))
    here = encode_images(images, ColorEncoder(), out=tmp_path / "here", shard_images=5)
    there = encode_images(images, ColorEncoder(), out="gs://trim/features", shard_images=5)
    assert there.fingerprint == here.fingerprint
    files = {path.name: path.read_bytes() for path in here.path.iterdir()}
    assert {path.rsplit("/", 1)[-1]: bucket.cat(path) for path in bucket.find("trim/features")} == files
    assert (there.rows([7, 2, 3]) == here.rows([7, 2, 3])).all()
    FeatureStore.open("gs://trim/features").verify()

    with pytest.raises(TrimtabError, match=r"^There is no feature store at gs://trim/nowhere[^\n]*$"):
        FeatureStore.open("gs://trim/nowhere")
    with pytest.raises(TrimtabError, match=r"^There are no images below gs://nobody/photos\.$"):
        load_dataset("gs://nobody/photos")
    with pytest.raises(TrimtabError, match=r"^The features cannot be written to gs://nobody/features: [^\n]*$"):
        encode_images(images, ColorEncoder(), out="gs://nobody/features")
