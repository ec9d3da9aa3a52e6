"""Tiny random diffusion pipelines on disk, saved as diffusers saves a user's."""

import json

import diffusers
import torch
import transformers

from tiny_clips import CLIP_IMAGES, clip_config, randomize, write_clip_tokenizer

SIDE = 16  # of the pictures that they draw: sample_size times 2, the scale of an encoder with two blocks
NORMS = {"norm_num_groups": 8}


def parts(width):
    """What every Stable Diffusion has; `width` is that of what it is drawn from."""
    torch.manual_seed(0)
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=width,
        attention_head_dim=4,
        **NORMS,
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        **NORMS,
    )
    return {
        "unet": randomize(unet),
        "vae": randomize(vae),
        "scheduler": diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
    }


def save_variation_pipeline(folder, *, blacks_out=False):
    """Image variation, as DiffTPT's authors draw; its preprocessing under the name that released pipelines use."""
    config = clip_config()
    checker = None
    if blacks_out:
        from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker

        checker = StableDiffusionSafetyChecker(config)
        checker.concept_embeds_weights.data.fill_(-2.0)  # every picture is nearer to each concept than that
    vision = config.vision_config
    vision.projection_dim = config.projection_dim
    diffusers.StableDiffusionImageVariationPipeline(
        image_encoder=randomize(transformers.CLIPVisionModelWithProjection(vision)),
        safety_checker=checker,
        feature_extractor=transformers.CLIPImageProcessor(**CLIP_IMAGES),
        requires_safety_checker=blacks_out,
        **parts(config.projection_dim),
    ).save_pretrained(folder)
    index = folder / "model_index.json"
    index.write_text(
        json.dumps(json.loads(index.read_text()) | {"feature_extractor": ["transformers", "CLIPImageProcessor"]})
    )
    return folder


def save_text_pipeline(folder, kind=None):
    """From words to an image: what most people have of Stable Diffusion."""
    text = clip_config().text_config
    tokens = folder.parent / f"{folder.name}-tokenizer"
    tokens.mkdir(parents=True)
    write_clip_tokenizer(tokens)
    (kind or diffusers.StableDiffusionPipeline)(
        text_encoder=randomize(transformers.CLIPTextModel(text)),
        tokenizer=transformers.CLIPTokenizer.from_pretrained(tokens, model_max_length=77),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
        **parts(text.hidden_size),
    ).save_pretrained(folder)
    return folder
