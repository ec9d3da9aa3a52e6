"""A tiny CLIP on disk with prompts beside it, as a user of MaPLe has them, and a folder of colored images."""

import numpy as np
import torch
import transformers
from PIL import Image

import tiny_clips
from trimtab.encoders import load_encoder
from trimtab.encoders.maple.backbone import openai_towers
from trimtab.encoders.maple.learner import new_learner
from trimtab.encoders.maple.prompt_files import write_prompts
from trimtab.encoders.maple.towers import PromptedTowers

COLORS = {"cat": (220, 40, 40), "dog": (40, 200, 40), "photo": (40, 60, 220)}


def save_clip(folder, *, seed=0, width=64):
    """The file of a tiny CLIP in OpenAI's layout; the words of its tokenizer are beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = tiny_clips.randomize(transformers.CLIPModel(tiny_clips.clip_config(width=width)), seed)
    torch.save(tiny_clips.openai_names(model), folder / "clip.pt")
    tiny_clips.write_merges(folder)
    return folder / "clip.pt"


def some_learner(encoder, *, length=2, depth=2, seed=3):
    """Prompts that differ from where learning begins, so that each of them matters."""
    towers = PromptedTowers(openai_towers(encoder))
    generator = torch.Generator().manual_seed(seed)
    words = towers.clip.token_embedding.weight[5:9].detach()
    learner = new_learner(length, depth, words, towers.widths[1], seed)
    with torch.no_grad():
        for values in learner.parameters():
            values += 0.1 * torch.randn(values.shape, generator=generator)
    return learner


def save_prompts(file, base, **options):
    """The name of an encoder: the prompts in `file`, inside the encoder called `base`."""
    encoder = load_encoder(base)
    write_prompts(file, some_learner(encoder, **options), {"backbone": encoder.fingerprint})
    return f"maple:{file}+{base}"


def save_images(folder, each=3, side=40):
    """A folder of classes with grainy images of one color each."""
    random = np.random.default_rng(0)
    for name, color in COLORS.items():
        (folder / name).mkdir(parents=True)
        for number in range(each):
            pixels = np.clip(np.array(color) + random.integers(-60, 61, (side, side, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder
