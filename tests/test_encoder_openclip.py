import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_clips  # noqa: E402
from tiny_clips import TEXTS, expected_features, openai_names, scaled, some_pixels, unit, write_merges  # noqa: E402
from trimtab.encoders import load_encoder  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402


def save_open_clip_file(folder, model):
    from safetensors.torch import save_file

    folder.mkdir()
    save_file(openai_names(model), folder / "open_clip_model.safetensors")
    write_merges(folder)
    return folder / "open_clip_model.safetensors"


@pytest.mark.parametrize(("name", "activation"), [("ViT-B-16", "gelu"), ("ViT-B-16-quickgelu", "quick_gelu")])
def test_open_clip_files_use_the_gelu_their_name_says(tmp_path, name, activation):
    torch.manual_seed(0)
    model = tiny_clips.randomize(transformers.CLIPModel(tiny_clips.clip_config(hidden_act=activation)))
    file = save_open_clip_file(tmp_path / "model", model)
    encoder = load_encoder(f"openclip:{name}/{file}")
    pixels = some_pixels()
    images, texts = expected_features(model, encoder, pixels)
    np.testing.assert_allclose(encoder.encode_images(pixels), images, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), texts, atol=1e-5)


def test_one_file_read_as_two_models_has_two_fingerprints(tmp_path):
    torch.manual_seed(0)
    file = save_open_clip_file(tmp_path / "model", transformers.CLIPModel(tiny_clips.clip_config()))
    models = ("openclip:ViT-B-16", "openclip:ViT-B-16-quickgelu", "openclip:ViT-H-14")
    fingerprints = [load_encoder(f"{model}/{file}").fingerprint for model in models]
    assert len(set(fingerprints)) == 3
    assert fingerprints[1] == load_encoder(f"openai:{file}").fingerprint


def test_open_clip_files_of_large_models_have_wider_heads(tmp_path):
    torch.manual_seed(0)
    config = tiny_clips.clip_config(hidden_act="gelu", width=320, vision_heads=4)
    model = tiny_clips.randomize(transformers.CLIPModel(config))
    file = save_open_clip_file(tmp_path / "model", model)
    pixels = some_pixels()
    encoder = load_encoder(f"openclip:ViT-H-14/{file}")
    np.testing.assert_allclose(encoder.encode_images(pixels), expected_features(model, encoder, pixels)[0], atol=1e-5)


def test_open_clip_colors_come_from_the_file_beside(tmp_path):
    torch.manual_seed(0)
    model = tiny_clips.randomize(transformers.CLIPModel(tiny_clips.clip_config(hidden_act="gelu")))
    file = save_open_clip_file(tmp_path / "model", model)
    file.with_name("open_clip_config.json").write_text(
        '{"preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}'
    )
    pixels = some_pixels()
    with torch.inference_mode():
        expected = unit(model.get_image_features(pixel_values=scaled(pixels, [0.5] * 3, [0.5] * 3)))
    np.testing.assert_allclose(load_encoder(f"openclip:ViT-B-16/{file}").encode_images(pixels), expected, atol=1e-5)
    file.with_name("open_clip_config.json").write_text("[]")
    with pytest.raises(TrimtabError, match="not an open_clip configuration"):
        load_encoder(f"openclip:ViT-B-16/{file}")


@pytest.mark.parametrize("name", ["openclip:ViT-B-16/laion2b_s34b_b88k", "openclip:ViT-B-16-SigLIP/webli"])
def test_without_the_package_tags_are_explained(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(TrimtabError, match=r"pip install 'trimtab\[openclip\]'"):
        load_encoder(name)


def test_open_clip_names_need_model_and_weights():
    with pytest.raises(TrimtabError, match="must name a model and its weights"):
        load_encoder("openclip:ViT-B-16")
