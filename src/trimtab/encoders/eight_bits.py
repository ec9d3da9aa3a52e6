"""int8 in torch: the linear layers of an image tower in eight bits, weights once and inputs as they come, on the CPU.

Only what an image runs through is changed. Texts are encoded once and kept, so their tower stays in float32, where
prompts can be learned through it as before.
"""

import warnings
from typing import Any

import torch
from torch import nn

from trimtab.errors import TrimtabError


def quantize_linears(name: str, tower: nn.Module, example: torch.Tensor) -> None:
    """Replace, in place, each linear layer of `tower` that `example` runs through by one of eight bits."""
    for module in tower.modules():
        attention: Any = module
        if hasattr(module, "project_by_a_layer"):  # OpenAI's attention, whose input projection is a bare matrix
            attention.project_by_a_layer()
    passed = _layers_passed(tower, example)
    convolutions = sum(isinstance(layer, nn.Conv2d) for layer in tower.modules())
    if len(passed) <= convolutions:
        raise TrimtabError(
            f"int8 covers linear layers, but {name} looks at images with {convolutions} convolutions and {len(passed)} "
            "linear layers; use bf16, or calibrate it: trimtab export --precision int8 --images FOLDER."
        )
    small = {layer: _quantized(layer) for layer in passed}
    for parent in list(tower.modules()):
        for child_name, child in list(parent.named_children()):
            if child in small:
                setattr(parent, child_name, small[child])


def _layers_passed(tower: nn.Module, example: torch.Tensor) -> list[nn.Linear]:
    passed: dict[nn.Linear, None] = {}

    def remember(layer: nn.Module, *_: object) -> None:
        assert isinstance(layer, nn.Linear)
        passed[layer] = None

    hooks = [layer.register_forward_hook(remember) for layer in tower.modules() if type(layer) is nn.Linear]
    with torch.inference_mode():
        tower(example)
    for hook in hooks:
        hook.remove()
    return list(passed)


def _quantized(layer: nn.Linear) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces a successor in another package
        from torch.ao.nn.quantized.dynamic import Linear
        from torch.ao.quantization import per_channel_dynamic_qconfig

        layer.qconfig = per_channel_dynamic_qconfig  # type: ignore[assignment]
        small: nn.Module = Linear.from_float(layer)  # type: ignore[no-untyped-call]
    return small
