import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from trimtab.data.fetched.cifar import cifar10
from trimtab.encoders import Encoder, load_encoder
from trimtab.encoders.lite import encoder as encoder_module
from trimtab.encoders.lite.build import ridge_regression
from trimtab.encoders.lite.sources import CLASS_NAMES, image_weights, text_model
from trimtab.errors import TrimtabError


@pytest.fixture(scope="module")
def lite():
    pytest.importorskip("onnxruntime")
    return load_encoder("lite")


@pytest.fixture(scope="module")
def some_cifar():
    try:
        images = cifar10()
    except TrimtabError as error:
        pytest.skip(str(error))
    sized = [
        np.asarray(Image.fromarray(images.load(i)).resize((224, 224), Image.Resampling.BICUBIC)) for i in range(300)
    ]
    return np.stack(sized), images.labels[:300], images.class_names


@given(
    rows=st.integers(1, 12),
    wide=st.integers(1, 5),
    out=st.integers(1, 4),
    penalty=st.floats(0.1, 50),
    seed=st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_ridge_regression_is_the_minimum(rows, wide, out, penalty, seed):
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(rows, wide)), random.normal(size=(rows, out))
    bridge = ridge_regression(x.astype(np.float32), y.astype(np.float32), penalty)
    gradient = x.T @ (x @ bridge - y) + penalty * bridge
    np.testing.assert_allclose(gradient, 0, atol=1e-4)


def test_there_are_a_thousand_different_class_names():
    names = CLASS_NAMES.read_text(encoding="utf-8").splitlines()
    assert len(set(names)) == len(names) == 1000
    assert (names[0], names[281], names[999]) == ("tench", "tabby", "toilet tissue")


@pytest.mark.parametrize(("device", "precision"), [("cuda", "fp32"), ("cpu", "fp16")])
def test_only_cpu_and_fp32(device, precision):
    with pytest.raises(TrimtabError, match="cpu in fp32 only"):
        load_encoder("lite", device=device, precision=precision)


def test_eight_bits_are_calibrated_first():
    with pytest.raises(TrimtabError, match="trimtab export -e lite --precision int8 --images"):
        load_encoder("lite", precision="int8")


def test_wrong_inputs_are_refused(lite):
    with pytest.raises(TrimtabError, match="224"):
        lite.encode_images(np.zeros((1, 32, 32, 3), np.uint8))
    with pytest.raises(TrimtabError, match="bytes"):
        lite.encode_images(np.zeros((1, 224, 224, 3), np.float32))
    with pytest.raises(TrimtabError, match="list"):
        lite.encode_texts("cat")
    with pytest.raises(TrimtabError, match="empty"):
        lite.encode_texts(["cat", " "])
    assert lite.encode_images(np.zeros((0, 224, 224, 3), np.uint8)).shape == (0, 1280)
    assert lite.encode_texts([]).shape == (0, 1280)


def test_images_do_not_depend_on_their_batch(lite):
    pixels = np.random.default_rng(0).integers(0, 256, (19, 224, 224, 3), dtype=np.uint8)
    together = lite.encode_images(pixels)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(together[17:18], lite.encode_images(pixels[17:18]), atol=1e-5)


def test_texts_do_not_depend_on_their_batch(lite):
    texts = ["cat", "a photo of a very long sentence about a cat that sleeps on a red sofa.", "truck"]
    together = lite.encode_texts(texts)
    np.testing.assert_allclose(together[:1], lite.encode_texts(texts[:1]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_the_image_tower_equals_torch(lite):
    torch = pytest.importorskip("torch")
    from trimtab.encoders.lite.towers import image_tower

    pixels = np.random.default_rng(1).integers(0, 256, (2, 224, 224, 3), dtype=np.uint8)
    with torch.inference_mode():
        expected = image_tower()(torch.from_numpy(pixels)).numpy()
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(lite.encode_images(pixels), expected, atol=1e-5)


def test_the_text_tower_equals_sentence_embeddings_from_torch(lite):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    texts = ["tench", "a photo of a goldfish."]
    tokenizer = transformers.AutoTokenizer.from_pretrained(text_model())
    model = transformers.BertModel.from_pretrained(text_model()).eval()
    for text, embedding in zip(texts, lite._embed(texts), strict=True):
        with torch.inference_mode():
            mean = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(dim=0).numpy()
        np.testing.assert_allclose(embedding, mean / np.linalg.norm(mean), atol=1e-5)


def test_the_torch_version_that_is_exported_is_the_same(lite):
    pytest.importorskip("torch")
    exact = lite.in_torch()
    texts = ["cat", "a photo of a fire engine."]
    pixels = np.random.default_rng(2).integers(0, 256, (1, 224, 224, 3), dtype=np.uint8)
    np.testing.assert_allclose(exact.encode_texts(texts), lite.encode_texts(texts), atol=1e-5)
    np.testing.assert_allclose(exact.encode_images(pixels), lite.encode_images(pixels), atol=1e-5)
    assert exact.logit_scale == lite.logit_scale


def test_names_lie_near_the_classifier_rows_they_name(lite):
    torch = pytest.importorskip("torch")
    rows = torch.load(image_weights(), weights_only=True)["_fc.weight"].numpy()
    names = CLASS_NAMES.read_text(encoding="utf-8").splitlines()
    texts = lite.encode_texts([f"a photo of a {name}." for name in names])
    nearest = (texts @ (rows - rows.mean(axis=0)).T).argmax(axis=1)
    assert np.mean(nearest == np.arange(1000)) > 0.5


@pytest.mark.slow
@pytest.mark.fetches("cifar10")
def test_zero_shot_on_cifar10(lite, some_cifar):
    pixels, labels, class_names = some_cifar
    texts = lite.encode_texts([f"a photo of a {name}." for name in class_names])
    logits = lite.logit_scale * lite.encode_images(pixels) @ texts.T
    assert np.mean(logits.argmax(axis=1) == labels) > 0.55
    confidence = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None]).max(axis=1).mean()
    assert 0.5 < confidence < 0.8  # neither flat nor certain


def test_encoding_from_the_cache_never_imports_torch(lite):
    lite.encode_texts(["cat"])  # everything is built now
    lite.encode_images(np.zeros((1, 224, 224, 3), np.uint8))
    program = (
        "import sys, numpy as np\n"
        "from trimtab.encoders import load_encoder\n"
        "lite = load_encoder('lite')\n"
        "lite.encode_texts(['cat']), lite.encode_images(np.zeros((1, 224, 224, 3), np.uint8))\n"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_it_is_an_encoder(lite):
    assert isinstance(lite, Encoder)
    assert len(lite.fingerprint) == 64


def test_damaged_packages_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setattr(encoder_module, "export_image_tower", lambda folder: 1 / 0)
    with pytest.raises(TrimtabError, match=r"image part of the lite encoder could not be built \(division by zero\)"):
        load_encoder("lite").encode_images(np.zeros((1, 224, 224, 3), np.uint8))
