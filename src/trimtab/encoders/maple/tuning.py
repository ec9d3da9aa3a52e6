"""PromptAlign's tuning: MaPLe's prompts follow one image for a few steps and are then put back.

Paper: Abdul Samadh et al., "Align Your Prompts: Test-Time Prompting with Distribution Alignment for Zero-Shot
Generalization", NeurIPS 2023. As released:

    L = H(mean prediction of the confident views) + w / (b - a) * sum over blocks l = a .. b - 2 of
        (mean |mu_l - MU_l| + mean |var_l - VAR_l|) / 2

where mu and var are over the confident views, per token and channel, of the tokens that enter block l (the loop stops
one block short, the divisor does not). The views are chosen once; in later steps the entropy uses the views chosen for
the alignment. Only confident views need a gradient, so all views pass the image tower once without one.
"""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from trimtab.encoders.base import checked_pixels
from trimtab.encoders.maple.learner import PromptLearner
from trimtab.encoders.maple.towers import PromptedTowers
from trimtab.encoders.torch_encoder import ImageTower
from trimtab.errors import TrimtabError
from trimtab.image_prompts import Alignment
from trimtab.source_stats import SourceStats


@dataclass(frozen=True, eq=False)
class Step:
    """What one step of tuning did; `learner` holds the prompts after it, and the gradients that led there."""

    entropy: float
    alignment: float  # before weight and division
    learner: PromptLearner


@dataclass(frozen=True, eq=False)
class Choice:
    """The plain pass over all views, and the views that were chosen in it."""

    logits: Tensor  # (V, C)
    entropies: Tensor  # (V,)
    order: Tensor  # (V,), most confident first
    for_entropy: int  # so many from the start of `order`
    for_alignment: int


class PromptTuner:
    """The prompts of an encoder for some classes; see `trimtab.image_prompts.ImagePrompts`."""

    def __init__(
        self,
        towers: PromptedTowers,
        learner: PromptLearner,
        tokens: Tensor,
        *,
        logit_scale: float,
        image_tower: ImageTower,
        backbone: str,
        prompts: str,
    ) -> None:
        self._towers, self._start, self._tokens = towers, learner, tokens
        self._learner = copy.deepcopy(learner).requires_grad_(True)
        self._scale, self._image_tower = logit_scale, image_tower
        self._backbone, self._prompts = backbone, prompts
        self.input_size = towers.visual.input_size

    @cached_property
    def fingerprint(self) -> str:
        """A hash of backbone, prompts and classes."""
        tokens = self._tokens.cpu().numpy().tobytes()
        return hashlib.sha256(f"{self._backbone} {self._prompts} {self._scale} ".encode() + tokens).hexdigest()

    @property
    def text_operations(self) -> float:
        """What one pass of all classes' texts takes, as the released program makes it."""
        return len(self._tokens) * self._towers.text_operations

    @property
    def image_operations(self) -> float:
        """What one pass of one view takes."""
        return self._towers.image_operations(self._start.length)

    def check(self, source: SourceStats, file: str, rule: Alignment) -> None:
        """Refuse statistics that do not belong to this encoder, or that do not cover the blocks of the rule."""
        source.check(file, self._backbone, self._prompts)
        needed = max(0, rule.last_block - 1)
        if rule.align_weight and source.blocks < needed:
            raise TrimtabError(
                f"{file} covers {source.blocks} of the {needed} blocks that the alignment uses; "
                f"make the statistics again with --blocks {needed}."
            )

    def answer(self, views: NDArray[np.uint8], rule: Alignment, source: SourceStats) -> NDArray[np.float32]:
        """(C,): logits of view 0 under prompts tuned on all views; the prompts are then put back."""
        pixels = torch.from_numpy(checked_pixels(views, self.input_size)).to(self._tokens.device)
        logits: NDArray[np.float32] = self.tune(self._image_tower.scaled(pixels), rule, source).cpu().numpy()
        return logits

    @cached_property
    def text_features(self) -> Tensor:
        """(C, d) under the prompts that every image begins with: the same for all images, so computed once."""
        with torch.no_grad():
            return self._towers.text_features(self._tokens, self._start().text)

    def choose(self, pixels: Tensor, rule: Alignment) -> Choice:
        """All views under the first prompts, and the most confident of them."""
        with torch.no_grad():
            features = self._towers.images(pixels, self._start().vision).features
            logits = self._scale * features @ self.text_features.T
            logs = functional.log_softmax(logits, dim=1)
            entropies = -(logs * logs.exp()).sum(dim=1)
        order = entropies.argsort(stable=True)
        shares = (rule.entropy_fraction, rule.align_fraction)
        counts = [max(1, int(len(pixels) * share)) for share in shares]
        return Choice(logits, entropies, order, *counts)

    def tune(
        self,
        pixels: Tensor,
        rule: Alignment,
        source: SourceStats,
        on_step: Callable[[Step], None] | None = None,
    ) -> Tensor:
        """(V, 3, size, size) scaled pixels -> (C,) logits of view 0 after tuning."""
        learner = self._learner
        learner.load_state_dict(self._start.state_dict())
        optimizer = torch.optim.AdamW(learner.parameters(), lr=rule.learning_rate)
        choice = self.choose(pixels, rule) if rule.steps else None
        for number in range(rule.steps):
            assert choice is not None
            entropy_views = choice.for_entropy if number == 0 else choice.for_alignment
            needed = max(entropy_views, choice.for_alignment)
            with torch.enable_grad():
                step = self._losses(
                    pixels[choice.order[:needed]], rule, source, entropy_views, choice.for_alignment, optimizer
                )
            optimizer.step()
            if on_step:
                on_step(step)
        with torch.no_grad():
            prompts = learner()
            text = self._towers.text_features(self._tokens, prompts.text)
            plain = self._towers.images(pixels[:1], prompts.vision).features[0]
            return self._scale * text @ plain

    def view_statistics(self, pixels: Tensor, blocks: int) -> tuple[Tensor, Tensor]:
        """Mean and variance, each (blocks, tokens, width), of views under the first prompts."""
        with torch.no_grad():
            return _statistics(self._towers.entering_tokens(pixels, self._start().vision, blocks))

    def _losses(
        self,
        pixels: Tensor,
        rule: Alignment,
        source: SourceStats,
        entropy_views: int,
        align_views: int,
        optimizer: torch.optim.Optimizer,
    ) -> Step:
        """Both losses on views that come most confident first; their gradient is left in the learner."""
        optimizer.zero_grad()
        prompts = self._learner()
        blocks = range(rule.first_block, rule.last_block - 1) if rule.align_weight else range(0)
        seen = self._towers.images(pixels, prompts.vision, watched=max(blocks, default=-1) + 1)
        text = self._towers.text_features(self._tokens, prompts.text)
        entropy = marginal_entropy(self._scale * seen.features[:entropy_views] @ text.T)
        alignment = entropy.new_zeros(())
        if blocks:
            means, variances = _statistics(seen.tokens[:align_views])
            kept = means.shape[1] - (0 if rule.prompt_tokens else self._learner.length)
            for block in blocks:
                for found, wanted in ((means, source.mean), (variances, source.variance)):
                    target = torch.from_numpy(wanted[block, :kept]).to(found.device)
                    alignment = alignment + 0.5 * functional.l1_loss(found[block, :kept], target)
        loss = entropy
        if rule.align_weight:
            loss = entropy + alignment * (rule.align_weight / (rule.last_block - rule.first_block))
        if not bool(torch.isfinite(loss)):
            raise TrimtabError("The loss of an image is not finite; tune with a smaller learning rate.")
        loss.backward()  # type: ignore[no-untyped-call]
        return Step(entropy.item(), alignment.item(), self._learner)


def marginal_entropy(logits: Tensor) -> Tensor:
    """The entropy of the mean prediction of (k, C) logits, in log space."""
    logs = functional.log_softmax(logits, dim=1).logsumexp(dim=0) - np.log(len(logits))
    logs = logs.clamp(min=torch.finfo(logs.dtype).min)
    return -(logs * logs.exp()).sum()


def _statistics(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population variance over the views, each (blocks, tokens, width)."""
    return tokens.mean(dim=0), tokens.var(dim=0, correction=0)
