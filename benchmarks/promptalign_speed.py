"""What a gradient through the confident views alone saves PromptAlign: `python -m benchmarks.promptalign_speed`.

Both sides tune the same prompts of the same random CLIP in float32, one step for one image. Field style sends all views
and all 77 positions of every class through the towers with a gradient, as the released program does.
"""

import copy
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from trimtab.encoders.maple.learner import PromptLearner, new_learner
from trimtab.encoders.maple.towers import PromptedTowers
from trimtab.encoders.maple.tuning import PromptTuner, marginal_entropy
from trimtab.encoders.openai.encoder import DEVIATION, MEAN
from trimtab.encoders.openai.model import OpenAIClip
from trimtab.encoders.torch_encoder import ImageTower, PixelScale
from trimtab.image_prompts import Alignment
from trimtab.source_stats import SourceStats

SIDE, PATCH, WIDTH, LAYERS, TEXT_WIDTH, DIM, CONTEXT = 224, 16, 384, 6, 256, 256, 77
VIEWS, CLASSES, NAME_END = 32, 100, 9
RULE = Alignment(
    steps=1,
    learning_rate=5e-4,
    entropy_fraction=0.1,
    align_fraction=0.1,
    align_weight=100.0,
    first_block=0,
    last_block=3,
    prompt_tokens=True,
)


def random_clip() -> OpenAIClip:
    """Both towers with random weights, a third of ViT-B/16 in width and half in depth."""
    shapes = {
        "visual.conv1.weight": (WIDTH, 3, PATCH, PATCH),
        "visual.positional_embedding": ((SIDE // PATCH) ** 2 + 1, WIDTH),
        "visual.proj": (WIDTH, DIM),
        "token_embedding.weight": (1000, TEXT_WIDTH),
        "positional_embedding": (CONTEXT, TEXT_WIDTH),
        "text_projection": (TEXT_WIDTH, DIM),
    }
    for layer in range(LAYERS):
        shapes[f"visual.transformer.resblocks.{layer}.mlp.c_fc.weight"] = (4 * WIDTH, WIDTH)
        shapes[f"transformer.resblocks.{layer}.mlp.c_fc.weight"] = (4 * TEXT_WIDTH, TEXT_WIDTH)
    torch.manual_seed(0)
    clip = OpenAIClip({name: torch.empty(shape) for name, shape in shapes.items()})
    with torch.no_grad():
        for values in clip.parameters():
            values.normal_(std=values.shape[-1] ** -0.5 if values.ndim > 1 else 0.02)
    return clip.eval().requires_grad_(False)


def field_style(
    towers: PromptedTowers, learner: PromptLearner, tokens: Tensor, pixels: Tensor, source: SourceStats
) -> Tensor:
    """One image as the released program tunes it."""
    optimizer = torch.optim.AdamW(learner.parameters(), lr=RULE.learning_rate)
    prompts = learner()
    seen = towers._images(pixels, prompts.vision, 2)
    logits = 100.0 * seen.features @ towers._text(tokens, prompts.text).T
    logs = logits.log_softmax(dim=1)
    chosen = (-(logs * logs.exp()).sum(dim=1)).argsort()[: int(VIEWS * RULE.entropy_fraction)]
    kept = seen.tokens[chosen]
    wanted = ((kept.mean(dim=0), source.mean), (kept.var(dim=0, correction=0), source.variance))
    alignment = sum((found - torch.from_numpy(target)).abs().mean(dim=(1, 2)).sum() for found, target in wanted) / 2
    loss = marginal_entropy(logits[chosen]) + RULE.align_weight / 3 * alignment
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    with torch.no_grad():
        prompts = learner()
        plain = towers._images(pixels[:1], prompts.vision, 0).features[0]
        return 100.0 * towers._text(tokens, prompts.text) @ plain


def show(console: Console) -> None:
    """Measure and print."""
    towers = PromptedTowers(random_clip())
    learner = new_learner(2, 3, towers.clip.token_embedding.weight[:4].detach(), WIDTH, seed=0)
    random = np.random.default_rng(0)
    tokens = torch.zeros(CLASSES, CONTEXT, dtype=torch.int64)
    tokens[:, 1:NAME_END] = torch.from_numpy(random.integers(1, 900, (CLASSES, NAME_END - 1)))
    tokens[:, NAME_END] = 999
    pixels = torch.from_numpy(random.standard_normal((VIEWS, 3, SIDE, SIDE)).astype(np.float32))
    shape = (2, (SIDE // PATCH) ** 2 + 3, WIDTH)
    source = SourceStats(random.standard_normal(shape).astype(np.float32), np.ones(shape, np.float32), "", "")
    tower = ImageTower(towers.visual, PixelScale.from_mean_and_deviation(MEAN, DEVIATION))
    tuner = PromptTuner(towers, learner, tokens, logit_scale=100.0, image_tower=tower, backbone="", prompts="")
    ours, answer = _seconds(lambda: tuner.tune(pixels, RULE, source))
    field, other = _seconds(lambda: field_style(towers, copy.deepcopy(learner), tokens, pixels, source))
    console.print(f"PromptAlign, {VIEWS} views, {CLASSES} classes, per image: {ours:.2f} s; field style {field:.2f} s")
    console.print(
        f"{field / ours:.1f} times as fast; largest difference of a logit {float((answer - other).abs().max()):.0e}"
    )


def _seconds(tuned: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """The faster of two, so that what is done once (the first text features) is not counted."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        answer = tuned()
        times.append(time.perf_counter() - start)
    return min(times), answer


if __name__ == "__main__":
    show(Console())
