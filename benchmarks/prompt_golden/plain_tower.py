"""A text tower the straightforward way: all 77 positions of every class, and automatic differentiation."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trimtab.encoders.openai.model import OpenAIClip

Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PlainTower:
    """Contexts through a CLIP's text half; `tokens` (C, 77) hold any L tokens in the context's place, after the first.

    `position` says where the class name stands among the context: at its end, in its middle (after the first L // 2
    vectors) or in front of it. `name_lengths` are the tokens of each name; only "end" does without them.
    """

    model: OpenAIClip
    tokens: NDArray[np.int64]
    start: Array
    position: str = "end"
    name_lengths: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Of what the features depend on; the weights are the golden file's."""
        return hashlib.sha256(self.tokens.tobytes() + self.position.encode()).hexdigest()

    def features(self, context: Array) -> Array:
        """(C, d) unit features."""
        with torch.inference_mode():
            found: Array = self._forward(torch.from_numpy(context)).numpy()
        return found

    def pullback(self, context: Array, slopes: Array) -> Array:
        """The gradient at the context."""
        leaf = torch.from_numpy(context).clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self._forward(leaf), leaf, torch.from_numpy(np.asarray(slopes, np.float32)))
        found: Array = gradient.numpy()
        return found

    def _forward(self, context: Tensor) -> Tensor:
        tokens = torch.from_numpy(self.tokens)
        words, length = self.model.token_embedding(tokens), context.shape[-2]
        before, after = words[:, :1], words[:, 1 + length :]
        if context.ndim == 2:
            context = context.expand(len(words), -1, -1)
        if self.position == "end":
            embedded = torch.cat([before, context, after], dim=1)
        else:
            ahead = length // 2 if self.position == "middle" else 0
            rows = []
            for row, name in enumerate(self.name_lengths):
                own, rest = after[row, :name], after[row, name:]
                rows.append(torch.cat([before[row], context[row, :ahead], own, context[row, ahead:], rest]))
            embedded = torch.stack(rows)
        x = embedded + self.model.positional_embedding[: tokens.shape[1]]
        x = self.model.ln_final(self.model.transformer(x, causal=True))
        ends = x[torch.arange(len(x)), tokens.argmax(dim=1)]
        return torch.nn.functional.normalize(ends @ self.model.text_projection, dim=1)
