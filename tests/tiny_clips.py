"""Tiny random models on disk, laid out as a user's real checkpoints are."""

import gzip
import json

import numpy as np
import torch
import transformers

CONTEXT = 77
SIDE = 32
TEXTS = ["a photo of a cat", "cat", "of of dog"]
MERGES = [("c", "a"), ("ca", "t</w>"), ("p", "h"), ("ph", "o"), ("pho", "t"), ("phot", "o</w>"), ("o", "f</w>")]


def byte_letters():
    """The 256 visible letters of byte-level BPE in OpenAI's order."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) for byte in visible] + [chr(256 + rank) for rank in range(len(hidden))]


def clip_vocabulary():
    words = [*byte_letters(), *(letter + "</w>" for letter in byte_letters()), *(a + b for a, b in MERGES)]
    return {word: number for number, word in enumerate([*words, "<|startoftext|>", "<|endoftext|>"])}


def randomize(model, seed=0):
    """Weights far enough from their initial values that every one of them matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer += 0.1 * torch.randn(buffer.shape, generator=generator)
    return model.eval()


def clip_config(hidden_act="quick_gelu", width=64, vision_heads=1):
    words = clip_vocabulary()
    text = {
        "vocab_size": len(words),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "max_position_embeddings": CONTEXT,
        "hidden_act": hidden_act,
        "bos_token_id": words["<|startoftext|>"],
        "eos_token_id": words["<|endoftext|>"],
        "pad_token_id": words["<|endoftext|>"],
    }
    vision = {
        "image_size": SIDE,
        "patch_size": 8,
        "hidden_size": width,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": vision_heads,
        "hidden_act": hidden_act,
    }
    return transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)


def write_clip_tokenizer(folder):
    (folder / "vocab.json").write_text(json.dumps(clip_vocabulary()))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in MERGES))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CLIPTokenizer"}))


def write_image_settings(folder, **settings):
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))


CLIP_IMAGES = {
    "crop_size": {"height": SIDE, "width": SIDE},
    "size": {"shortest_edge": 40},
    "do_center_crop": True,
    "do_normalize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def save_hf_clip(folder, **options):
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    model = randomize(transformers.CLIPModel(clip_config(**options)))
    model.save_pretrained(folder)
    write_clip_tokenizer(folder)
    write_image_settings(folder, **CLIP_IMAGES)
    return model


def some_pixels(count=3, seed=0, side=SIDE):
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def scaled(pixels, mean, deviation):
    """(B, 3, side, side) as every processor of transformers makes it from images of the right size."""
    return torch.tensor(((pixels / 255 - mean) / deviation).transpose(0, 3, 1, 2), dtype=torch.float32)


def unit(features):
    """The projected features of whatever transformers returns, as unit rows."""
    features = features if isinstance(features, torch.Tensor) else features.pooler_output
    return torch.nn.functional.normalize(features.float(), dim=1).numpy()


def openai_names(model):
    """The weights of a transformers CLIP under the names of OpenAI's checkpoints."""
    ours = {
        "logit_scale": model.logit_scale,
        "token_embedding.weight": model.text_model.embeddings.token_embedding.weight,
        "positional_embedding": model.text_model.embeddings.position_embedding.weight,
        "text_projection": model.text_projection.weight.T,
        "visual.class_embedding": model.vision_model.embeddings.class_embedding,
        "visual.positional_embedding": model.vision_model.embeddings.position_embedding.weight,
        "visual.conv1.weight": model.vision_model.embeddings.patch_embedding.weight,
        "visual.proj": model.visual_projection.weight.T,
    }
    norms = {
        "ln_final": model.text_model.final_layer_norm,
        "visual.ln_pre": model.vision_model.pre_layrnorm,
        "visual.ln_post": model.vision_model.post_layernorm,
    }
    for prefix, tower in (("", model.text_model), ("visual.", model.vision_model)):
        for number, layer in enumerate(tower.encoder.layers):
            start, attention = f"{prefix}transformer.resblocks.{number}.", layer.self_attn
            inputs = [attention.q_proj, attention.k_proj, attention.v_proj]
            ours[f"{start}attn.in_proj_weight"] = torch.cat([part.weight for part in inputs])
            ours[f"{start}attn.in_proj_bias"] = torch.cat([part.bias for part in inputs])
            norms |= {f"{start}attn.out_proj": attention.out_proj, f"{start}ln_1": layer.layer_norm1}
            norms |= {
                f"{start}ln_2": layer.layer_norm2,
                f"{start}mlp.c_fc": layer.mlp.fc1,
                f"{start}mlp.c_proj": layer.mlp.fc2,
            }
    for name, module in norms.items():
        ours |= {f"{name}.weight": module.weight, f"{name}.bias": module.bias}
    return {name: tensor.detach().clone().contiguous() for name, tensor in ours.items()}


def write_merges(folder):
    lines = "".join(f"{left} {right}\n" for left, right in MERGES)
    (folder / "bpe_simple_vocab_16e6.txt.gz").write_bytes(gzip.compress(f"headline\n{lines}".encode()))


def expected_features(model, encoder, pixels):
    """What transformers makes of `pixels` and of TEXTS."""
    tokens, mask = (torch.from_numpy(array) for array in encoder.tokenize(TEXTS))
    inputs = scaled(pixels, CLIP_IMAGES["image_mean"], CLIP_IMAGES["image_std"])
    with torch.inference_mode():
        images = unit(model.get_image_features(pixel_values=inputs))
        return images, unit(model.get_text_features(input_ids=tokens, attention_mask=mask))
