"""CLIP's two towers with MaPLe's prompts inside.

Text: the first n tokens after the start are the prompts, and before block i they become the i-th prompts. Images: the
prompts stand after the patches, get no position embedding, and their last n places become the i-th prompts before block
i. After the last deep prompt the tokens keep what the blocks make of them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trimtab.encoders.maple.learner import PromptLearner
from trimtab.encoders.openai.model import OpenAIClip, Transformer, VisionTransformer
from trimtab.engine.operations import transformer_pass
from trimtab.errors import TrimtabError

ACTIVATION_BYTES = 1 << 29  # what the activations of one pass may take; larger passes are done in pieces
KEPT_PER_TOKEN = 24  # values that a block keeps for its gradient, per token and unit of width

Result = TypeVar("Result")


class Seen(NamedTuple):
    """What the image tower makes of images."""

    features: Tensor  # (B, d), unit rows
    tokens: Tensor  # (B, blocks, tokens, width): those that enter the first blocks, prompts included


class PromptedTowers:
    """Both towers of a CLIP, as functions of the prompts."""

    def __init__(self, clip: OpenAIClip) -> None:
        if not isinstance(clip.visual, VisionTransformer):
            raise TrimtabError("A ResNet has no tokens, so it has no place for MaPLe's deep prompts; use a ViT.")
        self.clip, self.visual = clip, clip.visual

    @property
    def widths(self) -> tuple[int, int]:
        """(text width, vision width)."""
        return self.clip.token_embedding.embedding_dim, self.visual.class_embedding.shape[0]

    @property
    def blocks(self) -> int:
        """How many blocks the shorter tower has."""
        return min(len(self.clip.transformer.resblocks), len(self.visual.transformer.resblocks))

    @property
    def text_operations(self) -> float:
        """What one text takes, filled up to the longest as in the released program."""
        return (
            _operations(self.clip.transformer, len(self.clip.positional_embedding))
            + 2.0 * self.clip.text_projection.numel()
        )

    def image_operations(self, prompts: int) -> float:
        """What one view takes with so many prompts: cutting it into patches, and the tower."""
        tokens = len(self.visual.positional_embedding)
        patches = 2.0 * (tokens - 1) * self.visual.conv1.weight.numel()
        return patches + _operations(self.visual.transformer, tokens + prompts) + 2.0 * self.visual.proj.numel()

    def check(self, learner: PromptLearner, what: str) -> None:
        """Refuse prompts that do not fit into these towers; `what` names them and the encoder."""
        widths = (learner.proj.in_features, learner.proj.out_features)
        if widths != self.widths:
            raise TrimtabError(
                f"{what}: the prompts are for towers of width {widths[0]} (text) and {widths[1]} (images), the "
                f"encoder's are {self.widths[0]} and {self.widths[1]}; they belong to another backbone."
            )
        if learner.depth > self.blocks:
            raise TrimtabError(f"{what}: prompts of depth {learner.depth} do not fit into {self.blocks} blocks.")

    def text_features(self, tokens: Tensor, prompts: Sequence[Tensor]) -> Tensor:
        """(C, length) tokens -> (C, d) unit features.

        The tower is causal, so what follows the end of the longest text is cut off. Texts go through in pieces that
        keep activations within ACTIVATION_BYTES; where there are several, the gradient computes each piece again.
        """
        ends = tokens.argmax(dim=1)
        tokens = tokens[:, : int(ends.max()) + 1]
        at_once = self._at_once(tokens.shape[1], self.widths[0], len(self.clip.transformer.resblocks))
        pieces = [
            _piece(self._text, several=len(tokens) > at_once)(tokens[first : first + at_once], prompts)
            for first in range(0, len(tokens), at_once)
        ]
        return torch.cat(pieces)

    def images(self, pixels: Tensor, prompts: Sequence[Tensor], watched: int = 0) -> Seen:
        """(B, 3, size, size) scaled pixels -> features, and the tokens that enter the first `watched` blocks."""
        at_once = self._at_once(self._image_tokens(prompts), self.widths[1], len(self.visual.transformer.resblocks))
        pieces = [
            _piece(self._images, several=len(pixels) > at_once)(pixels[first : first + at_once], prompts, watched)
            for first in range(0, len(pixels), at_once)
        ]
        return Seen(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))

    def entering_tokens(self, pixels: Tensor, prompts: Sequence[Tensor], blocks: int) -> Tensor:
        """(B, blocks, tokens, width): the tokens that enter the first blocks; the later blocks are not computed."""
        x, entering = self._image_input(pixels, prompts), []
        for number, block in enumerate(list(self.visual.transformer.resblocks)[:blocks]):
            x = _with_last(x, prompts, number)
            entering.append(x)
            if number + 1 < blocks:
                x = block(x, False)
        return torch.stack(entering, dim=1)

    def _text(self, tokens: Tensor, prompts: Sequence[Tensor]) -> Tensor:
        x = self.clip.token_embedding(tokens)
        length = prompts[0].shape[0]
        x = _with_first(x, prompts[0], length) + self.clip.positional_embedding[: tokens.shape[1]]
        for number, block in enumerate(self.clip.transformer.resblocks):
            if 0 < number < len(prompts):
                x = _with_first(x, prompts[number], length)
            x = block(x, True)
        ends = x[torch.arange(len(x), device=x.device), tokens.argmax(dim=1)]
        return functional.normalize(self.clip.ln_final(ends) @ self.clip.text_projection, dim=1)

    def _images(self, pixels: Tensor, prompts: Sequence[Tensor], watched: int) -> Seen:
        x, entering = self._image_input(pixels, prompts), []
        for number, block in enumerate(self.visual.transformer.resblocks):
            x = _with_last(x, prompts, number)
            if number < watched:
                entering.append(x)
            x = block(x, False)
        features = functional.normalize(self.visual.ln_post(x[:, 0]) @ self.visual.proj, dim=1)
        return Seen(features, torch.stack(entering, dim=1) if entering else x.new_empty(len(x), 0))

    def _image_input(self, pixels: Tensor, prompts: Sequence[Tensor]) -> Tensor:
        patches = self.visual.conv1(pixels).flatten(2).transpose(1, 2)
        first = self.visual.class_embedding.expand(len(pixels), 1, -1)
        x = torch.cat([first, patches], dim=1) + self.visual.positional_embedding
        out: Tensor = self.visual.ln_pre(torch.cat([x, prompts[0].expand(len(x), -1, -1)], dim=1))
        return out

    def _image_tokens(self, prompts: Sequence[Tensor]) -> int:
        return self.visual.positional_embedding.shape[0] + prompts[0].shape[0]

    def _at_once(self, tokens: int, width: int, blocks: int) -> int:
        return max(1, ACTIVATION_BYTES // (4 * KEPT_PER_TOKEN * tokens * width * blocks))


def _operations(transformer: Transformer, tokens: int) -> float:
    hidden, width = transformer.get_parameter("resblocks.0.mlp.c_fc.weight").shape
    return transformer_pass(tokens, len(transformer.resblocks), width, hidden)


def _with_first(x: Tensor, prompt: Tensor, length: int) -> Tensor:
    """The tokens with the prompt at the places 1 .. n, after the start."""
    return torch.cat([x[:, :1], prompt.expand(len(x), -1, -1), x[:, 1 + length :]], dim=1)


def _with_last(x: Tensor, prompts: Sequence[Tensor], number: int) -> Tensor:
    """The tokens with the deep prompt of block `number` at the last n places, if there is one."""
    if not 0 < number < len(prompts):
        return x
    prompt = prompts[number]
    return torch.cat([x[:, : -prompt.shape[0]], prompt.expand(len(x), -1, -1)], dim=1)


def _piece(tower: Callable[..., Result], *, several: bool) -> Callable[..., Result]:
    """The tower; one of several pieces forgets its activations and computes them again for the gradient."""
    if not several:
        return tower

    def forgetful(*arguments: object) -> Result:
        result: Result = checkpoint(tower, *arguments, use_reentrant=False)
        return result

    return forgetful
