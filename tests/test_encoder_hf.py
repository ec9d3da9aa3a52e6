import json
import shutil
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_clips  # noqa: E402
from trimtab.encoders import Encoder, load_encoder  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf") / "clip"
    return folder, tiny_clips.save_hf_clip(folder)


@pytest.fixture(scope="module")
def encoder(clip):
    return load_encoder(f"hf:{clip[0]}")


def spelled(text):
    """Token numbers of one word that no merge touches."""
    words = tiny_clips.clip_vocabulary()
    return [words[letter] for letter in text[:-1]] + [words[text[-1] + "</w>"]]


def test_it_is_an_encoder_with_the_checkpoints_sizes(clip, encoder):
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.input_size) == (24, tiny_clips.SIDE)
    assert encoder.logit_scale == pytest.approx(float(clip[1].logit_scale.detach().exp()), rel=1e-6)


def test_token_numbers_are_the_vocabularys(encoder):
    words = tiny_clips.clip_vocabulary()
    tokens, mask = encoder.tokenize(["A photo of  a cat!", "dog"])
    start, end = words["<|startoftext|>"], words["<|endoftext|>"]
    first = [
        start,
        *spelled("a"),
        words["photo</w>"],
        words["of</w>"],
        *spelled("a"),
        words["cat</w>"],
        *spelled("!"),
        end,
    ]
    assert tokens[0].tolist() == first
    assert tokens[1, :5].tolist() == [start, *spelled("dog"), end]
    assert mask.sum(axis=1).tolist() == [8, 5]


def test_images_are_scaled_as_the_checkpoint_says(clip, encoder):
    pixels = tiny_clips.some_pixels()
    settings = tiny_clips.CLIP_IMAGES
    with torch.inference_mode():
        inputs = tiny_clips.scaled(pixels, settings["image_mean"], settings["image_std"])
        expected = tiny_clips.unit(clip[1].get_image_features(pixel_values=inputs))
    np.testing.assert_allclose(encoder.encode_images(pixels), expected, atol=1e-5)


def test_images_are_scaled_as_transformers_own_processor_does(encoder):
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    processor = kind(do_resize=False, do_center_crop=False)
    pixels = tiny_clips.some_pixels(1)
    expected = processor(images=pixels[0], return_tensors="np")["pixel_values"]
    tower = encoder.image_tower
    ours = torch.from_numpy(pixels).permute(0, 3, 1, 2) * tower.factor + tower.offset
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-5)


def test_texts_go_through_the_right_token(clip, encoder):
    texts = ["a photo of a cat", "cat", "of of of"]
    expected = []
    for text in texts:  # one at a time: no padding can be at fault
        tokens, _ = encoder.tokenize([text])
        with torch.inference_mode():
            expected.append(tiny_clips.unit(clip[1].get_text_features(input_ids=torch.from_numpy(tokens))))
    np.testing.assert_allclose(encoder.encode_texts(texts), np.concatenate(expected), atol=1e-5)


def test_long_texts_keep_their_end_mark_and_are_reported_once(clip):
    encoder = load_encoder(f"hf:{clip[0]}")
    with pytest.warns(UserWarning, match="longer than the 77 tokens") as caught:
        tokens, _ = encoder.tokenize(["cat " * 100, "of " * 100])
    assert len(caught) == 1
    assert tokens.shape == (2, 77)
    assert set(tokens[:, -1]) == {tiny_clips.clip_vocabulary()["<|endoftext|>"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        longest = encoder.encode_texts(["cat " * 75])
        np.testing.assert_allclose(encoder.encode_texts(["cat " * 100]), longest, atol=1e-6)


def test_quick_gelu_and_gelu_differ(clip, encoder, tmp_path):
    tiny_clips.save_hf_clip(tmp_path / "gelu", hidden_act="gelu")
    other = load_encoder(f"hf:{tmp_path / 'gelu'}")
    pixels = tiny_clips.some_pixels()
    assert np.abs(other.encode_images(pixels) - encoder.encode_images(pixels)).max() > 1e-4


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_half_precision_on_the_cpu(clip, encoder, precision):
    half = load_encoder(f"hf:{clip[0]}", precision=precision)
    pixels, texts = tiny_clips.some_pixels(), ["a photo of a cat", "dog"]
    for ours, exact in (
        (half.encode_images(pixels), encoder.encode_images(pixels)),
        (half.encode_texts(texts), encoder.encode_texts(texts)),
    ):
        assert ours.dtype == np.float32
        assert (ours * exact).sum(axis=1).min() > 0.999
        np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    assert half.fingerprint != encoder.fingerprint


class PretendedDevice:
    """A device that is the CPU in disguise, and writes down what goes to it and comes back."""

    def __init__(self, monkeypatch):
        self.pinned, self.sent, self.fetched, self.autocast = [], [], [], []
        to, cpu, autocast = torch.Tensor.to, torch.Tensor.cpu, torch.autocast

        def pin(tensor):
            self.pinned.append(len(tensor))
            return tensor

        def send(tensor, *args, **options):
            places = [place for place in (options.get("device"), *args) if isinstance(place, torch.device)]
            if any(place.type != "cpu" for place in places):
                if tensor.dtype == torch.uint8:
                    self.sent.append((len(tensor), options.get("non_blocking", False)))
                here = torch.device("cpu")
                args = [here if place in places else place for place in args]
                options = {key: here if key == "device" else value for key, value in options.items()}
            return to(tensor, *args, **options)

        def fetch(tensor):
            self.fetched.append(tuple(tensor.shape))
            return cpu(tensor)

        def casting(kind, dtype):
            self.autocast.append((kind, dtype))
            return autocast("cpu", dtype=dtype)

        monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
        monkeypatch.setattr(torch.Tensor, "to", send)
        monkeypatch.setattr(torch.Tensor, "cpu", fetch)
        monkeypatch.setattr(torch, "autocast", casting)
        monkeypatch.setattr("torch.cuda.is_available", lambda: True)
        monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
        monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)


@pytest.mark.parametrize(("device", "precision"), [("cuda", "fp32"), ("cuda", "bf16"), ("mps", "bf16")])
def test_a_device_is_kept_busy_and_waited_for_once(clip, encoder, monkeypatch, device, precision):
    pixels = tiny_clips.some_pixels(150)
    expected = encoder.encode_images(pixels)
    there = PretendedDevice(monkeypatch)
    remote = load_encoder(f"hf:{clip[0]}", device=device, precision=precision)
    remote.encode_texts(["cat"])
    for record in (there.sent, there.fetched, there.autocast):
        record.clear()
    found = remote.encode_images(pixels)
    assert there.sent == [(64, True), (64, True), (22, True)]
    assert there.pinned == ([64, 64, 22] if device == "cuda" else [])
    assert there.fetched == [(150, 24)]  # all features together, after the last batch was sent
    assert there.autocast == ([] if precision == "fp32" else [(device, torch.bfloat16)])
    assert (found * expected).sum(axis=1).min() > (0.999 if precision == "bf16" else 0.999999)
    assert remote.encode_images(pixels[:0]).shape == (0, 24)
    assert remote.images_per_call is None  # `look_ahead` may fill batches


def test_eight_bits_are_refused_on_a_device(clip, monkeypatch):
    PretendedDevice(monkeypatch)
    with pytest.raises(TrimtabError, match="int8 runs on cpu only, not on cuda"):
        load_encoder(f"hf:{clip[0]}", device="cuda", precision="int8")


def test_eight_bits_for_images_alone(clip, encoder):
    small = load_encoder(f"hf:{clip[0]}", precision="int8")
    pixels, texts = tiny_clips.some_pixels(5), ["a photo of a cat", "dog"]
    images = small.encode_images(pixels)
    assert 1e-6 < 1 - (images * encoder.encode_images(pixels)).sum(axis=1).min() < 0.01
    # Eight bits scale an input by its range: a picture must not look different beside another.
    assert np.array_equal(images, np.concatenate([small.encode_images(pixels[i : i + 1]) for i in range(5)]))
    assert np.array_equal(small.encode_texts(texts), encoder.encode_texts(texts))
    assert small.fingerprint != encoder.fingerprint
    assert small.fingerprint == load_encoder(f"hf:{clip[0]}", precision="int8").fingerprint


def test_fingerprints_follow_weights_pixels_and_tokens(clip, encoder, tmp_path):
    assert load_encoder(f"hf:{clip[0]}").fingerprint == encoder.fingerprint
    again = tmp_path / "again"
    tiny_clips.save_hf_clip(again)
    assert load_encoder(f"hf:{again}").fingerprint == encoder.fingerprint
    tiny_clips.write_image_settings(again, **{**tiny_clips.CLIP_IMAGES, "image_mean": [0.5, 0.5, 0.5]})
    assert load_encoder(f"hf:{again}").fingerprint != encoder.fingerprint
    tiny_clips.write_image_settings(again, **tiny_clips.CLIP_IMAGES)
    words = tiny_clips.clip_vocabulary()
    words["cat</w>"], words["of</w>"] = words["of</w>"], words["cat</w>"]  # other numbers for the same words
    (again / "vocab.json").write_text(json.dumps(words))
    assert load_encoder(f"hf:{again}").fingerprint != encoder.fingerprint


def test_newer_folders_keep_the_settings_in_processor_config(tmp_path, encoder):
    folder = tmp_path / "clip"
    tiny_clips.save_hf_clip(folder)
    (folder / "preprocessor_config.json").unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": tiny_clips.CLIP_IMAGES}))
    assert load_encoder(f"hf:{folder}").fingerprint == encoder.fingerprint


def test_what_is_wrong_is_said(clip, tmp_path):
    with pytest.raises(TrimtabError, match="No model could be loaded from"):
        load_encoder(f"hf:{tmp_path}")
    with pytest.raises(TrimtabError, match="There is no device 'tpu'"):
        load_encoder(f"hf:{clip[0]}", device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(TrimtabError, match="sees no CUDA device"):
            load_encoder(f"hf:{clip[0]}", device="cuda")


def test_a_folder_without_image_settings(tmp_path):
    folder = tmp_path / "clip"
    tiny_clips.save_hf_clip(folder)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(TrimtabError, match="no preprocessor_config"):
        load_encoder(f"hf:{folder}")


def test_mean_and_deviation_are_never_guessed(tmp_path):
    folder = tmp_path / "clip"
    tiny_clips.save_hf_clip(folder)
    settings = {key: value for key, value in tiny_clips.CLIP_IMAGES.items() if key != "image_mean"}
    tiny_clips.write_image_settings(folder, **settings)
    with pytest.raises(TrimtabError, match="no image_mean"):
        load_encoder(f"hf:{folder}")


def test_a_folder_without_tokenizer(tmp_path):
    folder = tmp_path / "clip"
    tiny_clips.save_hf_clip(folder)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(TrimtabError, match=r"tokenizer files are missing|no usable tokenizer"):
        load_encoder(f"hf:{folder}")


def test_missing_weights_are_not_replaced_by_random_ones(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "clip"
    tiny_clips.save_hf_clip(folder)
    weights = load_file(folder / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(TrimtabError, match=r"lacks 1 of the weights .*visual_projection"):
        load_encoder(f"hf:{folder}")


def test_a_model_of_one_tower_is_refused(tmp_path):
    config = transformers.CLIPVisionConfig(
        image_size=32, patch_size=8, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=1
    )
    transformers.CLIPVisionModel(config).save_pretrained(tmp_path)
    with pytest.raises(TrimtabError, match="does not encode both images and texts"):
        load_encoder(f"hf:{tmp_path}")


DAMAGE = {
    "missing": lambda file: file.unlink(),
    "empty": lambda file: file.write_bytes(b""),
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "one byte short": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "text": lambda file: file.write_text("not at all\n"),
    "null": lambda file: file.write_text("null"),
    "a list": lambda file: file.write_text("[]"),
    "a pointer": lambda file: file.write_text("version https://git-lfs.github.com/spec/v1\nsize 3\n"),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
}
HARMLESS = {  # a last line without its end, and what transformers can do without
    ("config.json", "one byte short"),
    ("merges.txt", "one byte short"),
    ("tokenizer_config.json", "missing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_file_is_named(clip, tmp_path, damage):
    for name in sorted(path.name for path in clip[0].iterdir()):
        folder = tmp_path / name
        shutil.copytree(clip[0], folder)
        DAMAGE[damage](folder / name)
        if (name, damage) in HARMLESS:
            load_encoder(f"hf:{folder}")
            continue
        with pytest.raises(TrimtabError) as caught:
            load_encoder(f"hf:{folder}")
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_merges_file_cut_at_the_end_of_a_line_is_noticed(clip, tmp_path):
    folder = tmp_path / "clip"
    shutil.copytree(clip[0], folder)
    lines = (folder / "merges.txt").read_text().splitlines(keepends=True)
    (folder / "merges.txt").write_text("".join(lines[:4]))
    with pytest.raises(TrimtabError, match=r"merges.txt makes 4 of the 7 tokens of vocab.json no longer"):
        load_encoder(f"hf:{folder}")
