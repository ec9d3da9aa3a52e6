import hashlib
import shutil
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.nn import functional  # noqa: E402

import tiny_clips  # noqa: E402
from tiny_clips import CLIP_IMAGES, TEXTS, expected_features, openai_names, scaled, some_pixels, unit, write_merges  # noqa: E402
from trimtab.encoders import load_encoder  # noqa: E402
from trimtab.encoders.openai import published  # noqa: E402
from trimtab.encoders.openai.model import OpenAIClip  # noqa: E402
from trimtab.encoders.openai.tokenizer import clip_tokens  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402


class Archive(OpenAIClip):
    """What OpenAI published: a TorchScript archive with three numbers beside the weights."""

    def __init__(self, weights):
        super().__init__(weights)
        for name, number in (("input_resolution", 32), ("context_length", 77), ("vocab_size", 521)):
            self.register_buffer(name, torch.tensor(number))

    def forward(self, pixels, tokens):
        return self.visual(pixels), self.encode_text(tokens)


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A tiny ViT in transformers, and the same as an archive in half precision and as a state dict."""
    folder = tmp_path_factory.mktemp("openai")
    torch.manual_seed(0)
    model = tiny_clips.randomize(transformers.CLIPModel(tiny_clips.clip_config()))
    weights = openai_names(model)
    torch.save(weights, folder / "weights.pt")
    archive = Archive(weights)
    archive.load_state_dict(weights, strict=False)
    example = (torch.zeros(1, 3, 32, 32), torch.zeros(1, 77, dtype=torch.int64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated, but it is what these files were made with
        torch.jit.trace(archive.eval(), example, check_trace=False).save(str(folder / "archive.pt"))
    write_merges(folder)
    return folder, model


@pytest.mark.parametrize("file", ["weights.pt", "archive.pt"])
def test_vit_equals_transformers(vit, file):
    folder, model = vit
    encoder = load_encoder(f"openai:{folder / file}")
    pixels = some_pixels()
    images, texts = expected_features(model, encoder, pixels)
    np.testing.assert_allclose(encoder.encode_images(pixels), images, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), texts, atol=1e-5)
    assert (encoder.dim, encoder.input_size) == (24, 32)
    assert encoder.logit_scale == pytest.approx(float(model.logit_scale.detach().exp()), rel=1e-6)


def test_both_forms_have_one_fingerprint(vit):
    folder, _ = vit
    fingerprints = {load_encoder(f"openai:{folder / file}").fingerprint for file in ("weights.pt", "archive.pt")}
    assert len(fingerprints) == 1


def test_token_numbers(vit):
    words = tiny_clips.clip_vocabulary()
    tokens, _ = load_encoder(f"openai:{vit[0] / 'weights.pt'}").tokenize(["A  cat.", "photo of it's"])
    start, end = words["<|startoftext|>"], words["<|endoftext|>"]
    apostrophe = [words["i"], words["t</w>"], words["'"], words["s</w>"]]
    assert tokens[0].tolist() == [start, words["a</w>"], words["cat</w>"], words[".</w>"], end, 0, 0, 0]
    assert tokens[1].tolist() == [start, words["photo</w>"], words["of</w>"], *apostrophe, end]


def test_half_precision_files_and_towers(vit, tmp_path):
    folder, _ = vit
    exact = load_encoder(f"openai:{folder / 'weights.pt'}")
    halved = {name: tensor.half() for name, tensor in torch.load(folder / "weights.pt").items()}
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{name}": tensor for name, tensor in halved.items()}}, tmp_path / "w.pt"
    )
    write_merges(tmp_path)
    for precision in ("fp32", "fp16", "bf16"):
        half = load_encoder(f"openai:{tmp_path / 'w.pt'}", precision=precision)
        pixels = some_pixels()
        assert (half.encode_images(pixels) * exact.encode_images(pixels)).sum(axis=1).min() > 0.999
        assert (half.encode_texts(TEXTS) * exact.encode_texts(TEXTS)).sum(axis=1).min() > 0.999


def test_eight_bits_reach_every_product_of_the_image_tower(vit):
    name = f"openai:{vit[0] / 'weights.pt'}"
    exact, small = load_encoder(name), load_encoder(name, precision="int8")
    layers = [type(layer).__module__ for layer in small.image_tower.modules() if type(layer).__name__ == "Linear"]
    assert len(layers) == 2 * 4  # of two blocks: into attention, out of it, and two of the perceptron
    assert all("quantized" in module for module in layers)
    pixels = some_pixels()
    assert 1e-6 < 1 - (small.encode_images(pixels) * exact.encode_images(pixels)).sum(axis=1).min() < 0.01
    tower = small.text_tower(["cat", "dog"])  # prompts are learned through the text as before
    assert np.isfinite(tower.pullback(tower.start, np.ones((2, small.dim), np.float32))).all()


def test_eight_bits_are_refused_where_they_would_change_next_to_nothing(resnet):
    with pytest.raises(TrimtabError, match=r"with \d+ convolutions and \d linear layers; use bf16"):
        load_encoder(f"openai:{resnet[0]}", precision="int8")


def tiny_resnet_weights():
    generator = torch.Generator().manual_seed(0)
    shapes = {"visual.conv1": (8, 3, 3, 3), "visual.conv2": (8, 8, 3, 3), "visual.conv3": (16, 8, 3, 3)}
    norms = {"visual.bn1": 8, "visual.bn2": 8, "visual.bn3": 16}
    incoming = 16
    for layer, blocks in enumerate((2, 1, 1, 1), start=1):
        middle = 16 * 2 ** (layer - 1)
        for block in range(blocks):
            start = f"visual.layer{layer}.{block}."
            shapes |= {f"{start}conv1": (middle, incoming, 1, 1), f"{start}conv2": (middle, middle, 3, 3)}
            shapes |= {f"{start}conv3": (4 * middle, middle, 1, 1)}
            norms |= {f"{start}bn1": middle, f"{start}bn2": middle, f"{start}bn3": 4 * middle}
            if block == 0:
                shapes[f"{start}downsample.0"] = (4 * middle, incoming, 1, 1)
                norms[f"{start}downsample.1"] = 4 * middle
            incoming = 4 * middle
    weights = {f"{name}.weight": 0.2 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    for name, size in norms.items():
        weights |= {
            f"{name}.weight": torch.ones(size),
            f"{name}.running_var": 0.5 + torch.rand(size, generator=generator),
        }
        weights |= {f"{name}.bias": 0.1 * torch.randn(size, generator=generator)}
        weights |= {f"{name}.running_mean": 0.1 * torch.randn(size, generator=generator)}
        weights |= {f"{name}.num_batches_tracked": torch.tensor(7)}
    pool = "visual.attnpool."
    weights[f"{pool}positional_embedding"] = 0.1 * torch.randn((5, incoming), generator=generator)
    for part, size in (("q", incoming), ("k", incoming), ("v", incoming), ("c", 24)):
        weights[f"{pool}{part}_proj.weight"] = 0.05 * torch.randn((size, incoming), generator=generator)
        weights[f"{pool}{part}_proj.bias"] = 0.1 * torch.randn(size, generator=generator)
    return weights


def resnet_by_hand(weights, pixels):
    """The published architecture as one page of functions over the checkpoint's names."""

    def normed(x, name):
        numbers = (weights[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return functional.batch_norm(x, *numbers)

    def convolved(x, name, number, **options):
        return normed(
            functional.conv2d(x, weights[f"{name}conv{number}.weight"], **options), f"{name}bn{number}"
        ).relu()

    x = pixels
    for number, stride in ((1, 2), (2, 1), (3, 1)):
        x = convolved(x, "visual.", number, stride=stride, padding=1)
    x = functional.avg_pool2d(x, 2)
    for start in sorted({name[: name.index("conv1")] for name in weights if ".layer" in name and "conv1" in name}):
        shrink = 2 if start.endswith(".0.") and "layer1" not in start else 1
        inner = convolved(convolved(x, start, 1), start, 2, padding=1)
        inner = functional.avg_pool2d(inner, shrink)
        inner = normed(functional.conv2d(inner, weights[f"{start}conv3.weight"]), f"{start}bn3")
        if f"{start}downsample.0.weight" in weights:
            shortcut = functional.conv2d(functional.avg_pool2d(x, shrink), weights[f"{start}downsample.0.weight"])
            x = normed(shortcut, f"{start}downsample.1")
        x = (inner + x).relu()
    pool = {name.removeprefix("visual.attnpool."): value for name, value in weights.items() if "attnpool" in name}
    places = x.flatten(2).permute(2, 0, 1)
    places = torch.cat([places.mean(0, keepdim=True), places]) + pool["positional_embedding"][:, None]
    width = places.shape[-1]
    pooled, _ = functional.multi_head_attention_forward(
        query=places[:1],
        key=places,
        value=places,
        embed_dim_to_check=width,
        num_heads=width // 64,
        in_proj_weight=None,
        in_proj_bias=torch.cat([pool[f"{part}_proj.bias"] for part in "qkv"]),
        bias_k=None,
        bias_v=None,
        add_zero_attn=False,
        dropout_p=0.0,
        out_proj_weight=pool["c_proj.weight"],
        out_proj_bias=pool["c_proj.bias"],
        use_separate_proj_weight=True,
        q_proj_weight=pool["q_proj.weight"],
        k_proj_weight=pool["k_proj.weight"],
        v_proj_weight=pool["v_proj.weight"],
        training=False,
    )
    return pooled[0]


@pytest.fixture(scope="module")
def resnet(vit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("resnet")
    texts = {name: value for name, value in torch.load(vit[0] / "weights.pt").items() if not name.startswith("visual.")}
    weights = tiny_resnet_weights()
    torch.save(texts | weights, folder / "RN.pt")
    write_merges(folder)
    return folder / "RN.pt", weights


def test_resnet_equals_the_published_architecture(resnet):
    file, weights = resnet
    encoder = load_encoder(f"openai:{file}")
    assert encoder.input_size == 64
    pixels = some_pixels(2, side=64)
    inputs = scaled(pixels, CLIP_IMAGES["image_mean"], CLIP_IMAGES["image_std"])
    np.testing.assert_allclose(encoder.encode_images(pixels), unit(resnet_by_hand(weights, inputs)), atol=1e-5)


def test_files_that_are_not_a_clip_are_explained(vit, tmp_path):
    folder, _ = vit
    with pytest.raises(TrimtabError, match="neither a file nor one of OpenAI's models: RN50,"):
        load_encoder("openai:ViT-B/17")
    (tmp_path / "text.pt").write_text("not a checkpoint")
    with pytest.raises(TrimtabError, match="not a checkpoint that torch can read safely"):
        load_encoder(f"openai:{tmp_path / 'text.pt'}")
    torch.save({"weight": torch.ones(2)}, tmp_path / "other.pt")
    with pytest.raises(TrimtabError, match=r"no weight called visual\.conv1\.weight"):
        load_encoder(f"openai:{tmp_path / 'other.pt'}")
    weights = torch.load(folder / "weights.pt")
    del weights["ln_final.bias"]
    torch.save(weights, tmp_path / "part.pt")
    with pytest.raises(TrimtabError, match=r"not a CLIP that trimtab knows.*ln_final\.bias"):
        load_encoder(f"openai:{tmp_path / 'part.pt'}")


PUBLISHED_TOKENS = {  # computed with OpenAI's own simple_tokenizer.py
    "a photo of a cat": [320, 1125, 539, 320, 2368],
    "A Boeing 737-800, seen from below!": [
        320, 11857, 278, 274, 278, 268, 279, 271, 271, 267, 2041, 633, 3788, 256,
    ],
    "crème brûlée": [1075, 12138, 614, 711, 127, 119, 75, 13489],
    "it's  a qzxvkjw": [585, 568, 320, 80, 89, 87, 85, 74, 24215],
    "They'll've DON'T": [889, 1342, 1200, 847, 713],
    "東京 🙂 ½": [48338, 21078, 361, 14860, 33613],
    "a_b <tag> #2 (x)": [320, 318, 321, 283, 3640, 285, 258, 273, 263, 343, 264],
}  # fmt: skip


@pytest.mark.parametrize("text", PUBLISHED_TOKENS)
def test_the_vocabulary_that_comes_along_is_clips(text, tmp_path):
    tokens, _ = clip_tokens(tmp_path, vocabulary=49408, context=77)([text])
    assert tokens[0].tolist() == [49406, *PUBLISHED_TOKENS[text], 49407]


def test_a_checkpoint_needs_nothing_beside_it(vit, tmp_path):
    weights = torch.load(vit[0] / "weights.pt")
    weights["token_embedding.weight"] = torch.randn(49408, 64)
    torch.save(weights, tmp_path / "weights.pt")
    encoder = load_encoder(f"openai:{tmp_path / 'weights.pt'}")
    assert encoder.tokenize(["a photo of a cat"])[0].tolist() == [[49406, 320, 1125, 539, 320, 2368, 49407]]
    assert encoder.encode_texts(["a photo of a cat"]).shape == (1, 24)


def test_a_tokenizer_that_does_not_fit_is_refused(vit, tmp_path):
    file = tmp_path / "weights.pt"
    file.write_bytes((vit[0] / "weights.pt").read_bytes())
    with pytest.raises(TrimtabError, match=r"reads 521 different tokens but .*bpe_simple_vocab.* makes 49408; put"):
        load_encoder(f"openai:{file}")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nc a\n")
    with pytest.raises(TrimtabError, match=r"reads 521 different tokens but .* makes 515"):
        load_encoder(f"openai:{file}")
    (tmp_path / "merges.txt").unlink()
    (tmp_path / "bpe_simple_vocab_16e6.txt.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(TrimtabError, match="cannot be read"):
        load_encoder(f"openai:{file}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TrimtabError, match="is not a tokenizer file"):
        load_encoder(f"openai:{file}")


def test_published_models_are_found_verified_and_fetched(vit, tmp_path, monkeypatch, capsys):
    content = (vit[0] / "archive.pt").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    shelf = tmp_path / "published" / digest
    shelf.mkdir(parents=True)
    (shelf / "ViT-B-16.pt").write_bytes(content)
    monkeypatch.setitem(published.SHA256, "ViT-B/16", digest)
    monkeypatch.setattr(published, "PUBLISHED", (tmp_path / "published").as_uri())
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "cache" / "openai").mkdir(parents=True)
    write_merges(tmp_path / "cache" / "openai")
    encoder = load_encoder("openai:ViT-B/16")
    assert encoder.encode_images(some_pixels(1)).shape == (1, 24)
    assert "downloading ViT-B/16 from OpenAI" in capsys.readouterr().err
    load_encoder("openai:ViT-B/16")
    assert capsys.readouterr().err == ""
    kept = tmp_path / "cache" / "openai" / "ViT-B-16.pt"
    kept.write_bytes(content[:-100])
    load_encoder("openai:ViT-B/16")
    assert "is damaged" in capsys.readouterr().err
    assert kept.read_bytes() == content
    kept.unlink()
    (shelf / "ViT-B-16.pt").write_bytes(content[:-100])
    with pytest.raises(TrimtabError, match="wrong checksum"):
        load_encoder("openai:ViT-B/16")
    (shelf / "ViT-B-16.pt").unlink()
    with pytest.raises(TrimtabError, match=r"could not be downloaded .* put ViT-B-16\.pt into"):
        load_encoder("openai:ViT-B/16")
    assert not kept.exists()


@pytest.mark.parametrize("name", ["weights.pt", "archive.pt", "bpe_simple_vocab_16e6.txt.gz"])
@pytest.mark.parametrize("kind", ["openai:", "openclip:ViT-B-16/"])
@pytest.mark.parametrize("content", [b"", b"null", b"not at all", None])
def test_a_broken_file_is_named(vit, tmp_path, name, kind, content):
    shutil.copytree(vit[0], tmp_path / "clip")
    file = tmp_path / "clip" / name
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(TrimtabError) as caught:
        load_encoder(f"{kind}{tmp_path / 'clip' / (name if name.endswith('.pt') else 'weights.pt')}")
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
