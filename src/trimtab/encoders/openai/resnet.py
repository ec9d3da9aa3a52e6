"""The ResNets of OpenAI's CLIP: three stem convolutions, blurred strides, attention instead of the last average."""

from collections import OrderedDict
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

HEAD_WIDTH = 64  # of every attention in OpenAI's models


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1; where torchvision's block would stride, an average pool comes first."""

    def __init__(self, incoming: int, middle: int, outgoing: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(incoming, middle, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.pool = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        self.conv3 = nn.Conv2d(middle, outgoing, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outgoing)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or incoming != outgoing:
            convolution = nn.Conv2d(incoming, outgoing, 1, bias=False)
            layers = {"pool": nn.AvgPool2d(stride), "0": convolution, "1": nn.BatchNorm2d(outgoing)}
            self.downsample = nn.Sequential(OrderedDict(layers))

    def forward(self, x: Tensor) -> Tensor:
        """(B, incoming, h, w) -> (B, outgoing, h / stride, w / stride)."""
        out = functional.relu(self.bn1(self.conv1(x)))
        out = functional.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(self.pool(out)))
        return functional.relu(out + self.downsample(x))


class AttentionPool(nn.Module):
    """The mean of all places asks all places; its answer is the feature."""

    def __init__(self, places: int, width: int, dim: int) -> None:
        super().__init__()
        self.heads = width // HEAD_WIDTH
        self.positional_embedding = nn.Parameter(torch.empty(places + 1, width))
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.c_proj = nn.Linear(width, dim)

    def forward(self, x: Tensor) -> Tensor:
        """(B, width, h, w) -> (B, dim)."""
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([x.mean(dim=1, keepdim=True), x], dim=1) + self.positional_embedding
        query, key, value = self._heads(self.q_proj(x[:, :1])), self._heads(self.k_proj(x)), self._heads(self.v_proj(x))
        answer = functional.scaled_dot_product_attention(query, key, value)
        out: Tensor = self.c_proj(answer.transpose(1, 2).flatten(1))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class ModifiedResNet(nn.Module):
    """The image tower of RN50 and its larger relatives, sized by the checkpoint's tensors."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        stem = weights["visual.conv1.weight"].shape[0]
        width = weights["visual.layer1.0.conv1.weight"].shape[0]
        places = weights["visual.attnpool.positional_embedding"].shape[0] - 1
        dim = weights["visual.attnpool.c_proj.weight"].shape[0]
        self.input_size = 32 * round(places**0.5)
        self.conv1 = nn.Conv2d(3, stem, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        self.conv2 = nn.Conv2d(stem, stem, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(stem)
        self.conv3 = nn.Conv2d(stem, width, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.avgpool = nn.AvgPool2d(2)
        incoming = width
        for number in range(1, 5):
            start = f"visual.layer{number}."
            blocks = len({name.split(".")[2] for name in weights if name.startswith(start)})
            middle, layers = width * 2 ** (number - 1), []
            for block in range(blocks):
                stride = 2 if number > 1 and block == 0 else 1
                layers.append(Bottleneck(incoming, middle, 4 * middle, stride))
                incoming = 4 * middle
            self.add_module(f"layer{number}", nn.Sequential(*layers))
        self.attnpool = AttentionPool(places, incoming, dim)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, size, size) -> (B, d)."""
        x = functional.relu(self.bn1(self.conv1(pixels)))
        x = functional.relu(self.bn2(self.conv2(x)))
        x = self.avgpool(functional.relu(self.bn3(self.conv3(x))))
        for number in range(1, 5):
            x = self.get_submodule(f"layer{number}")(x)
        out: Tensor = self.attnpool(x)
        return out
