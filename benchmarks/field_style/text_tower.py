"""A text tower under a context as the field's prompt-learning programs run it: 77 positions and plain autograd.

Every class's sentence goes through the whole model, padding included, with the context's embeddings in the places of
its words. `model` is an `OpenAIClip`, whose modules are the usual ones.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from trimtab.encoders.openai.model import OpenAIClip

POSITIONS = 77


def features(
    model: OpenAIClip, tokens: Tensor, context: Tensor, name_lengths: Sequence[int], position: str = "end"
) -> Tensor:
    """(C, d) unit features.

    `tokens` (C, 77) are those of "<L words> <name>.", zero-padded; `context` is (L, w) or (C, L, w) and replaces the
    embeddings of the words.
    """
    length = context.shape[-2]
    context = context.expand(len(tokens), -1, -1)
    embedded = model.token_embedding(tokens)
    prefix, suffix = embedded[:, :1], embedded[:, 1 + length :]
    if position == "end":
        prompts = torch.cat([prefix, context, suffix], dim=1)
    else:
        first = length // 2 if position == "middle" else 0
        rows = [
            torch.cat([prefix[c], context[c, :first], suffix[c, :name], context[c, first:], suffix[c, name:]])
            for c, name in enumerate(name_lengths)
        ]
        prompts = torch.stack(rows)
    x = model.transformer(prompts + model.positional_embedding, causal=True)
    ends = model.ln_final(x)[torch.arange(len(tokens)), tokens.argmax(dim=-1)]
    return functional.normalize(ends @ model.text_projection, dim=1)


def pullback(
    model: OpenAIClip,
    tokens: Tensor,
    context: Tensor,
    slopes: Tensor,
    name_lengths: Sequence[int],
    position: str = "end",
) -> Tensor:
    """The gradient at the context."""
    leaf = context.detach().clone().requires_grad_()
    features(model, tokens, leaf, name_lengths, position).backward(slopes)  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad
