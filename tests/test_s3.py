"""Images and stores in a bucket: a real S3 endpoint on this machine (moto's server), through s3fs and its requests."""

import urllib.request

import pytest
from PIL import Image

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab.data import load_dataset
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.features.encode import encode_images

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")


@pytest.fixture
def endpoint(monkeypatch):
    """The server's address, where the bucket `trim` is; whoever asks has the rights of `key`, of an account's root."""
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket="trim")
    s3fs.S3FileSystem.clear_instance_cache()
    yield address
    ask_for_rights(address, b"inf")
    s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def ask_for_rights(address, after):
    """Let the server ask for rights after some requests."""
    wish = urllib.request.Request(f"{address}/moto-api/reset-auth", after, {"Content-Type": "text/plain"})
    urllib.request.urlopen(wish).close()


def without_rights(address, monkeypatch):
    """From now on rights are asked for, and whoever asks is a user who has none."""
    users = boto3.client("iam")
    users.create_user(UserName="guest")
    key = users.create_access_key(UserName="guest")["AccessKey"]
    ask_for_rights(address, b"0")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_bucket_holds_images_and_features(endpoint, tmp_path, monkeypatch):
    bucket = boto3.client("s3")
    for number in range(12):
        name, path = list(COLORS)[number % 4], tmp_path / f"{number}.png"
        Image.fromarray(colored(name, seed=number)).save(path)
        bucket.put_object(Bucket="trim", Key=f"photos/{name}/{number}.png", Body=path.read_bytes())
    images = load_dataset("s3://trim/photos")
    assert images.class_names == tuple(sorted(COLORS))
    here = encode_images(images, ColorEncoder(), out=tmp_path / "here", shard_images=5)
    there = encode_images(images, ColorEncoder(), out="s3://trim/features", shard_images=5)
    assert there.fingerprint == here.fingerprint
    listed = bucket.list_objects_v2(Bucket="trim", Prefix="features/")["Contents"]
    found = {each["Key"].removeprefix("features/"): each["Key"] for each in listed}
    files = {path.name: path.read_bytes() for path in here.path.iterdir()}
    assert {n: bucket.get_object(Bucket="trim", Key=key)["Body"].read() for n, key in found.items()} == files
    assert (there.rows([7, 2, 3]) == here.rows([7, 2, 3])).all()
    FeatureStore.open("s3://trim/features").verify()
    with pytest.raises(TrimtabError, match="There is no feature store at s3://trim/nowhere"):
        FeatureStore.open("s3://trim/nowhere")

    without_rights(endpoint, monkeypatch)
    denied = r"^s3://trim/[a-z]+ may not be read or written with these credentials: .*Access ?Denied[^\n]*\.$"
    with pytest.raises(TrimtabError, match=denied):
        FeatureStore.open("s3://trim/features")
    with pytest.raises(TrimtabError, match=denied):
        load_dataset("s3://trim/photos")
    with pytest.raises(TrimtabError, match=denied):
        encode_images(images, ColorEncoder(), out="s3://trim/others")


def test_a_bucket_that_is_not_there_and_a_service_that_does_not_answer_are_one_sentence(endpoint, monkeypatch):
    with pytest.raises(TrimtabError, match=r"^There is no feature store at s3://nobody/features[^\n]*$"):
        FeatureStore.open("s3://nobody/features")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(TrimtabError, match=r"^s3://trim/features cannot be read or written: Could not connect[^\n]*$"):
        FeatureStore.open("s3://trim/features")
