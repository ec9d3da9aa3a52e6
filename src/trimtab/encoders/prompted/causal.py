"""CLIP's text tower from embeddings to features, computing only what the features depend on.

The tower is causal: a position sees itself and what stands before it. So nothing after the end-of-text token matters,
and the positions that all classes begin with (the head: start mark and shared context) are computed once, their keys
and values serving every class. The feature is read at the end-of-text token, so the last block asks only there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trimtab.engine.operations import transformer_pass

QUICK = 1.702  # x sigmoid(1.702 x) is QuickGELU


@dataclass(frozen=True, eq=False)
class Norm:
    """A layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, module: Any) -> "Norm":
        """From torch's module."""
        return cls(*linear(module), eps=float(module.eps))

    def __call__(self, x: Tensor) -> Tensor:
        """(..., w) -> the same, normalized."""
        return functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


@dataclass(frozen=True, eq=False)
class CausalBlock:
    """One block: weights in torch's layout (out, in), each with its bias."""

    attention_norm: Norm
    projections: tuple[Tensor, Tensor]  # query, key and value in one matrix, (3 w, w)
    mixing: tuple[Tensor, Tensor]
    perceptron_norm: Norm
    widening: tuple[Tensor, Tensor]
    narrowing: tuple[Tensor, Tensor]
    heads: int
    quick_gelu: bool

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n, S, w) normalized -> keys and values, (n, heads, S, w / heads) each."""
        width = x.shape[-1]
        key, value = self._projected(x, slice(width, None))
        return key, value

    def queries(self, x: Tensor) -> Tensor:
        """(n, S, w) normalized -> (n, heads, S, w / heads), scaled."""
        (query,) = self._projected(x, slice(x.shape[-1]))
        return query * query.shape[-1] ** -0.5

    def all_three(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values from one product."""
        query, key, value = self._projected(x, slice(None))
        return query * query.shape[-1] ** -0.5, key, value

    def _projected(self, x: Tensor, rows: slice) -> tuple[Tensor, ...]:
        weight, bias = self.projections
        every = functional.linear(x, weight[rows], bias[rows])
        split = every.view(*x.shape[:2], -1, self.heads, x.shape[-1] // self.heads)
        return split.permute(2, 0, 3, 1, 4).unbind(0)

    def after_attention(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The stream (n, S, w) with what attention found, (n, heads, S, w / heads), and with what is made of it."""
        shape = x.shape
        x = (x + functional.linear(mixed.transpose(1, 2).reshape(shape), *self.mixing)).view(-1, shape[-1])
        widening, wide_bias = self.widening
        narrowing, narrow_bias = self.narrowing
        if self.quick_gelu:  # SiLU between two scaled products: one kernel, and it keeps only its input
            hidden = torch.addmm(wide_bias, self.perceptron_norm(x), widening.t(), beta=QUICK, alpha=QUICK)
            x = x + torch.addmm(narrow_bias, functional.silu(hidden), narrowing.t(), alpha=1 / QUICK)
        else:
            hidden = functional.linear(self.perceptron_norm(x), widening, wide_bias)
            x = x + functional.linear(functional.gelu(hidden), narrowing, narrow_bias)
        return x.view(shape)


@dataclass(frozen=True, eq=False)
class CausalText:
    """A causal text tower read at its last position; see the module's text."""

    tokens: Tensor  # (vocabulary, w)
    positions: Tensor  # (longest text, w)
    blocks: Sequence[CausalBlock]
    final_norm: Norm
    projection: Tensor  # (w, d)

    shares_head = True

    @property
    def longest(self) -> int:
        """How many tokens a text may have."""
        return len(self.positions)

    def embed(self, ids: Tensor) -> Tensor:
        """Token numbers -> embeddings."""
        return self.tokens[ids]

    def operations(self, tokens: int) -> float:  # noqa: ARG002
        """What a text takes: the released programs fill it up to the longest."""
        width, hidden = self.tokens.shape[1], len(self.blocks[0].widening[1])
        return transformer_pass(self.longest, len(self.blocks), width, hidden) + 2.0 * self.projection.numel()

    def kept_floats(self, head: int, own: int) -> int:
        """How many numbers the way back needs of each of a class's `own` positions behind a head."""
        block = self.blocks[0]
        width, hidden = self.tokens.shape[1], len(block.widening[1])
        return len(self.blocks) * (6 * width + hidden + 3 * block.heads * (head + own))

    def head(self, embeddings: Tensor) -> list[Tensor]:
        """(H, w) embeddings at the positions that all classes share -> every block's keys and values, in turn."""
        x = (embeddings + self.positions[: len(embeddings)])[None]
        found: list[Tensor] = []
        for number, block in enumerate(self.blocks):
            normal = block.attention_norm(x)
            if number == len(self.blocks) - 1:
                found += [part[0] for part in block.keys_and_values(normal)]
                break
            query, key, value = block.all_three(normal)
            found += [key[0], value[0]]
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0)
            x = block.after_attention(x, mixed)
        return found

    def features(self, head: Sequence[Tensor], embeddings: Tensor) -> Tensor:
        """(n, d) from the embeddings (n, S, w) of what stands behind the head; the last one ends the text."""
        length, start = embeddings.shape[1], head[0].shape[1]
        x = embeddings + self.positions[start : start + length]
        later = torch.full((length, length), float("-inf"), device=x.device).triu(1)
        for number, block in enumerate(self.blocks):
            keys, values = head[2 * number : 2 * number + 2]
            normal = block.attention_norm(x)
            if number == len(self.blocks) - 1:
                key, value = block.keys_and_values(normal)
                query, x, later = block.queries(normal[:, -1:]), x[:, -1:], later[-1:]
            else:
                query, key, value = block.all_three(normal)
            x = block.after_attention(x, _attended(query, key, value, keys, values, later))
        return self.final_norm(x[:, 0]) @ self.projection


def _attended(query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, later: Tensor) -> Tensor:
    """What queries (n, heads, Q, e) find in the head's keys (heads, H, e) and in those of their own text."""
    n, heads, asking, width = query.shape
    flat = query.transpose(0, 1).reshape(heads, n * asking, width)
    to_head = (flat @ keys.transpose(1, 2)).view(heads, n, asking, -1).transpose(0, 1)
    weights = torch.cat([to_head, query @ key.transpose(2, 3) + later], dim=-1).softmax(dim=-1)
    start = keys.shape[1]
    flat = weights[..., :start].transpose(0, 1).reshape(heads, n * asking, start)
    from_head = (flat @ values).view(heads, n, asking, width).transpose(0, 1)
    return from_head + weights[..., start:] @ value


def linear(module: Any) -> tuple[Tensor, Tensor]:
    """Weight and bias of a module, in float32 and out of any training."""
    return module.weight.detach().float(), module.bias.detach().float()
