"""MaPLe's training: the step, and a state that continues bit for bit."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from trimtab.encoders.maple.learner import PromptLearner
from trimtab.encoders.maple.prompt_files import write_tensors
from trimtab.encoders.maple.towers import PromptedTowers
from trimtab.errors import TrimtabError

MOMENTUM, WEIGHT_DECAY = 0.9, 5e-4  # as released


class MapleTraining:
    """SGD on the cross-entropy of labeled images; the towers stay as they are."""

    def __init__(
        self,
        towers: PromptedTowers,
        learner: PromptLearner,
        tokens: Tensor,
        logit_scale: float,
        *,
        momentum: float = MOMENTUM,
        weight_decay: float = WEIGHT_DECAY,
    ) -> None:
        self.towers, self.learner, self.tokens, self.logit_scale = (
            towers,
            learner.requires_grad_(True),
            tokens,
            logit_scale,
        )
        self._optimizer = torch.optim.SGD(learner.parameters(), lr=0.0, momentum=momentum, weight_decay=weight_decay)

    def logits(self, pixels: Tensor) -> Tensor:
        """(B, C) of scaled images."""
        prompts = self.learner()
        images = self.towers.images(pixels, prompts.vision).features
        return self.logit_scale * images @ self.towers.text_features(self.tokens, prompts.text).T

    def step(self, pixels: Tensor, labels: Tensor, rate: float) -> float:
        """One step on a batch; its loss. A loss that is not a number stops the training before it does harm."""
        self._optimizer.zero_grad()
        loss = functional.cross_entropy(self.logits(pixels), labels)
        if not bool(torch.isfinite(loss)):
            raise TrimtabError("The loss is NaN or infinite; learn with a smaller --rate.")
        loss.backward()  # type: ignore[no-untyped-call]
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        if not all(bool(torch.isfinite(values).all()) for values in self.learner.parameters()):
            raise TrimtabError("The prompts have become NaN or infinite; learn with a smaller --rate.")
        return float(loss.detach())

    def save(self, file: Path, about: Mapping[str, str]) -> None:
        """Write prompts and momenta, so that training can continue as if it had not stopped."""
        tensors = {f"prompts/{name}": values.detach() for name, values in self.learner.named_parameters()}
        for name, values in self.learner.named_parameters():
            momentum = self._optimizer.state.get(values, {}).get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum/{name}"] = momentum
        write_tensors(file, tensors, about)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `save` wrote."""
        with torch.no_grad():
            for name, values in self.learner.named_parameters():
                values.copy_(tensors[f"prompts/{name}"])
                if f"momentum/{name}" in tensors:
                    momentum = tensors[f"momentum/{name}"].to(values.device).clone()
                    self._optimizer.state[values]["momentum_buffer"] = momentum
