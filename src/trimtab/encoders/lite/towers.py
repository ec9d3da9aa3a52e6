"""The `lite` encoder in torch: what its ONNX files are exported from."""

from collections.abc import Mapping

import torch
from efficientnet_lite_pytorch import EfficientNet
from numpy import float32
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertModel, logging

from trimtab.encoders.lite.sources import LONGEST_TEXT, image_weights, text_model, text_tokens
from trimtab.encoders.prompted.sentences import BridgedText
from trimtab.encoders.torch_encoder import ImageTower, PixelScale, TorchEncoder

SCALE = PixelScale((1 / 128,) * 3, (-127 / 128,) * 3)  # (byte - 127) / 128


class PooledFeatures(nn.Module):
    """An EfficientNet-Lite up to the mean over all places of its last convolution."""

    def __init__(self, name: str, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.network = EfficientNet.from_name(name)
        self.network.load_state_dict(weights)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, height, width) -> (B, d)."""
        places: Tensor = self.network.extract_features(pixels)
        return places.mean(dim=(2, 3))


class SentenceEncoder(nn.Module):
    """all-MiniLM-L6-v2: the mean over a text's tokens."""

    def __init__(self) -> None:
        super().__init__()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self.network = BertModel.from_pretrained(str(text_model()), local_files_only=True)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(n, length) -> (n, 384)."""
        states: Tensor = self.network(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(dim=1) / weights.sum(dim=1)


class BridgedSentences(nn.Module):
    """The sentence encoder followed by the bridge into the space of image features."""

    def __init__(self, bridge: NDArray[float32]) -> None:
        super().__init__()
        self.sentences = SentenceEncoder()
        self.bridge = nn.Parameter(torch.from_numpy(bridge))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(n, length) -> (n, 1280)."""
        return functional.normalize(self.sentences(tokens, mask), dim=1) @ self.bridge


def image_tower() -> ImageTower:
    """A torch module: (B, 224, 224, 3) bytes -> (B, 1280) features."""
    return ImageTower(_features_of_lite(), SCALE).eval()


def _features_of_lite() -> PooledFeatures:
    return PooledFeatures("efficientnet-lite0", torch.load(image_weights(), map_location="cpu", weights_only=True))


def sentences_from_embeddings(bridge: NDArray[float32]) -> BridgedText:
    """The text tower from word embeddings on, for prompts that are learned."""
    network = SentenceEncoder().eval().requires_grad_(False).network
    return BridgedText(network, torch.from_numpy(bridge), LONGEST_TEXT)


def lite_in_torch(bridge: NDArray[float32], logit_scale: float) -> TorchEncoder:
    """The whole encoder, to be exported like any other."""
    return joined("lite", _features_of_lite(), bridge, input_size=224, logit_scale=logit_scale)


def joined(
    name: str, image: PooledFeatures, bridge: NDArray[float32], *, input_size: int, logit_scale: float
) -> TorchEncoder:
    """An image tower, and the sentence encoder with a bridge into the space of its features."""
    text = BridgedSentences(bridge)
    return TorchEncoder(
        name,
        nn.ModuleList([image, text]),
        image,
        text,
        text_tokens(),
        input_size=input_size,
        pixel_scale=SCALE,
        logit_scale=logit_scale,
    )
