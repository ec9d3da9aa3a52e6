"""A sentence encoder as a text tower: BERT reads in both directions, so nothing is shared between classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional

from trimtab.engine.operations import transformer_pass


@dataclass(frozen=True, eq=False)
class BridgedText:
    """transformers' BertModel, the mean over its tokens, and a matrix into the space of image features."""

    network: Any
    bridge: Tensor  # (w, d)
    longest: int

    shares_head = False

    def embed(self, ids: Tensor) -> Tensor:
        """Token numbers -> word embeddings; positions, types and norm come after them, inside the network."""
        embeddings: Tensor = self.network.embeddings.word_embeddings.weight.detach()[ids]
        return embeddings

    def operations(self, tokens: int) -> float:
        """What a text takes: the network, and the bridge behind it."""
        config = self.network.config
        through = transformer_pass(tokens, config.num_hidden_layers, config.hidden_size, config.intermediate_size)
        return through + 2.0 * self.bridge.numel()

    def kept_floats(self, head: int, own: int) -> int:
        """How many numbers the way back needs of each of a class's positions."""
        config = self.network.config
        attention = 3 * config.num_attention_heads * (head + own)
        return int(config.num_hidden_layers * (9 * config.hidden_size + 2 * config.intermediate_size + attention))

    def head(self, embeddings: Tensor) -> list[Tensor]:  # noqa: ARG002
        """Nothing is shared."""
        return []

    def features(self, head: Sequence[Tensor], embeddings: Tensor) -> Tensor:  # noqa: ARG002
        """(n, d) from the embeddings (n, S, w) of whole texts, without padding."""
        states: Tensor = self.network(inputs_embeds=embeddings).last_hidden_state
        return functional.normalize(states.mean(dim=1), dim=1) @ self.bridge
