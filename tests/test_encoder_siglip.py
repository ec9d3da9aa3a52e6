import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tiny_clips import randomize, scaled, some_pixels, unit, write_image_settings  # noqa: E402
from trimtab.encoders import load_encoder  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402

WORDS = ["<unk>", "</s>", "▁a", "▁photo", "▁of", "▁cat", "▁its", *(f"▁filler{number}" for number in range(13))]
CONTEXT = 64
HALF = [0.5, 0.5, 0.5]


def write_siglip_tokenizer(folder):
    """Sentence pieces in a tokenizer.json, under the class name that the published SigLIP folders state."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram([(word, -float(number)) for number, word in enumerate(WORDS)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>", pad_token="</s>", model_max_length=CONTEXT
    )
    fast.save_pretrained(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "tokenizer_class": "SiglipTokenizer"}))


@pytest.fixture(scope="module")
def siglip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("siglip")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": len(WORDS), "max_position_embeddings": CONTEXT, "projection_size": 32}
    config = transformers.SiglipConfig(text_config=text, vision_config={**sizes, "image_size": 32, "patch_size": 8})
    torch.manual_seed(0)
    model = randomize(transformers.SiglipModel(config))
    with torch.no_grad():
        model.logit_scale.fill_(4.7)
        model.logit_bias.fill_(-12.5)
    model.save_pretrained(folder)
    write_siglip_tokenizer(folder)
    write_image_settings(folder, size={"height": 32, "width": 32}, image_mean=HALF, image_std=HALF, do_normalize=True)
    return folder, model


@pytest.fixture(scope="module")
def encoder(siglip):
    return load_encoder(f"hf:{siglip[0]}")


def test_texts_are_cleaned_and_fill_the_context(encoder):
    tokens, _ = encoder.tokenize(["A photo, of   a CAT!", "it's"])
    assert tokens.shape == (2, CONTEXT)
    photo = [WORDS.index(word) for word in ("▁a", "▁photo", "▁of", "▁a", "▁cat")]
    assert tokens[0].tolist() == photo + [1] * (CONTEXT - 5)
    assert tokens[1].tolist() == [WORDS.index("▁its")] + [1] * (CONTEXT - 1)


def test_long_texts_keep_their_end_mark(encoder):
    with pytest.warns(UserWarning, match="longer than the 64 tokens"):
        tokens, _ = encoder.tokenize(["cat " * 80])
    assert tokens.shape == (1, CONTEXT)
    assert tokens[0, -2:].tolist() == [WORDS.index("▁cat"), 1]


def test_scale_bias_and_pooling_give_the_models_own_logits(siglip, encoder):
    pixels, texts = some_pixels(2), ["a photo of a cat", "a cat"]
    inputs = scaled(pixels, HALF, HALF)
    words = [[WORDS.index("▁" + word) for word in text.split()] for text in texts]
    tokens = torch.tensor([row + [1] * (CONTEXT - len(row)) for row in words])
    with torch.inference_mode():
        expected = siglip[1](input_ids=tokens, pixel_values=inputs).logits_per_image.numpy()
    cosines = encoder.encode_images(pixels) @ encoder.encode_texts(texts).T
    np.testing.assert_allclose(encoder.logit_scale * cosines + encoder.logit_bias, expected, atol=1e-4)
    assert encoder.logit_bias == pytest.approx(-12.5)


def test_texts_do_not_depend_on_their_batch(encoder):
    texts = ["cat", "a photo of a cat"]
    np.testing.assert_allclose(encoder.encode_texts(texts)[:1], encoder.encode_texts(texts[:1]), atol=1e-6)


@pytest.mark.skipif(not hasattr(transformers, "Siglip2Config"), reason="this transformers is older than SigLIP 2")
def test_the_variant_with_free_resolution_is_refused(tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": len(WORDS), "projection_size": 32}
    config = transformers.Siglip2Config(text_config=text, vision_config={**sizes, "num_patches": 16, "patch_size": 8})
    transformers.Siglip2Model(config).save_pretrained(tmp_path)
    with pytest.raises(TrimtabError, match="siglip2 are not supported"):
        load_encoder(f"hf:{tmp_path}")


def test_align_divides_by_its_temperature_and_shifts_its_pixels(tmp_path):
    text = {
        "vocab_size": 30,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 40,
    }
    vision = {
        "image_size": 32,
        "width_coefficient": 0.25,
        "depth_coefficient": 0.2,
        "hidden_dim": 640,
        "kernel_sizes": [3],
        "in_channels": [32],
        "out_channels": [16],
        "depthwise_padding": [],
        "strides": [2],
        "num_block_repeats": [1],
        "expand_ratios": [1],
    }
    config = transformers.AlignConfig(text_config=text, vision_config=vision, projection_dim=8)
    torch.manual_seed(0)
    model = randomize(transformers.AlignModel(config))
    with torch.no_grad():
        model.temperature.fill_(0.02)
    model.save_pretrained(tmp_path)
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "a",
        "photo",
        "of",
        "cat",
        *(f"filler{number}" for number in range(20)),
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    write_image_settings(
        tmp_path,
        do_center_crop=True,
        crop_size={"height": 32, "width": 32},
        size={"height": 40, "width": 40},
        do_rescale=True,
        rescale_factor=1 / 127.5,
        rescale_offset=True,
        do_normalize=False,
        include_top=False,
    )
    encoder = load_encoder(f"hf:{tmp_path}")
    assert encoder.logit_scale == pytest.approx(50)
    tokens, mask = encoder.tokenize(["a photo of a cat", "cat"])
    assert tokens[0].tolist() == [2, 4, 5, 6, 4, 7, 3]
    assert mask[1].tolist() == [1, 1, 1, 0, 0, 0, 0]
    pixels = some_pixels(2)
    with torch.inference_mode():
        alone = model.get_text_features(input_ids=torch.tensor([[2, 7, 3]]))
        inputs = torch.tensor((pixels / 127.5 - 1).transpose(0, 3, 1, 2), dtype=torch.float32)
        seen = model.get_image_features(pixel_values=inputs)
    np.testing.assert_allclose(encoder.encode_texts(["a photo of a cat", "cat"])[1:], unit(alone), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images(pixels), unit(seen), atol=1e-5)


def test_prompts_cannot_be_learned_through_its_text_tower(encoder):
    with pytest.raises(TrimtabError, match="cannot be learned through the text tower of hf:"):
        encoder.text_tower(["cat", "dog"])
