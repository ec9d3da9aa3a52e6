"""MapleEncoder: a CLIP with learned prompts in both towers, used like any other encoder."""

import warnings
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trimtab.encoders.base import checked_texts
from trimtab.encoders.maple.backbone import openai_towers
from trimtab.encoders.maple.learner import PromptLearner
from trimtab.encoders.maple.prompt_files import SavedPrompts, check_backbone, prompts_fingerprint
from trimtab.encoders.maple.towers import PromptedTowers
from trimtab.encoders.maple.tuning import PromptTuner
from trimtab.encoders.openai.model import OpenAIClip
from trimtab.encoders.prompted.context_files import TRAINED_ON
from trimtab.encoders.tokens import Tokens
from trimtab.encoders.torch_encoder import PixelScale, TorchEncoder
from trimtab.errors import TrimtabError
from trimtab.prompts.names import words_of


class PromptedClip(nn.Module):
    """The weights of the towers and of the prompts together."""

    def __init__(self, clip: OpenAIClip, learner: PromptLearner) -> None:
        super().__init__()
        self.clip, self.prompt_learner = clip, learner


class ImageHalf(nn.Module):
    """Scaled images -> features."""

    def __init__(self, model: PromptedClip, towers: PromptedTowers) -> None:
        super().__init__()
        self.model, self.towers = model, towers

    def forward(self, pixels: Tensor) -> Tensor:
        """Through the image tower with its prompts."""
        return self.towers.images(pixels, self.model.prompt_learner().vision).features


class TextHalf(nn.Module):
    """Tokens -> features."""

    def __init__(self, model: PromptedClip, towers: PromptedTowers) -> None:
        super().__init__()
        self.model, self.towers = model, towers

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:  # noqa: ARG002
        """Through the text tower with its prompts; the end of a text has the highest number."""
        return self.towers.text_features(tokens, self.model.prompt_learner().text)


class MapleEncoder(TorchEncoder):
    """Texts must begin with the words whose places the prompts take: `template` says how a class is written."""

    learner: PromptLearner
    towers: PromptedTowers
    backbone_fingerprint: str
    trained_on: str  # the labeled data, and the number of shots

    @property
    def template(self) -> str:
        """The sentence that a class stands in."""
        return f"{self.learner.opening} {{}}."

    @property
    def learned_prompts(self) -> str:
        """One line for manifests and tables, which says whose labels the prompts owe."""
        size = f"{self.learner.length} x {self.learner.depth} learned vectors (MaPLe)"
        return f"{size}, {TRAINED_ON} {self.trained_on or 'unnamed data'}"

    @property
    def dim(self) -> int:  # known here without encoding a text
        """The number of feature dimensions."""
        return int(self.towers.clip.text_projection.shape[1])

    @cached_property
    def prompts_fingerprint(self) -> str:
        """A hash of the prompts alone."""
        return prompts_fingerprint(self.learner)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentences that begin with the opening words -> (n, d) unit features."""
        opening = self.learner.opening
        for text in checked_texts(texts):
            if not text.lower().startswith(f"{opening.lower()} "):
                raise TrimtabError(
                    f"{self.name} has learned prompts in the place of {opening!r}, so a text must begin with these "
                    f"words, unlike {text!r}; use the template {self.template!r}."
                )
        return super().encode_texts(texts)

    def image_prompts(self, class_names: Sequence[str]) -> PromptTuner:
        """The prompts of both towers for these classes, to be tuned on one image at a time."""
        return PromptTuner(
            self.towers,
            self.learner,
            torch.from_numpy(self.class_tokens(class_names)).to(self.model_device),
            logit_scale=self.logit_scale,
            image_tower=self.image_tower,
            backbone=self.backbone_fingerprint,
            prompts=self.prompts_fingerprint,
        )

    def class_tokens(self, class_names: Sequence[str]) -> Tokens:
        """(C, length): each class in its sentence."""
        return class_tokens(self, self.learner, class_names)


def class_tokens(encoder: TorchEncoder, learner: PromptLearner, class_names: Sequence[str]) -> Tokens:
    """(C, length) tokens of the classes' sentences; a name that fills the whole context is refused."""
    context = getattr(encoder.tokenize, "context", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a text is cut off: it is refused below
        tokens, _ = encoder.tokenize([f"{learner.opening} {words_of(name)}." for name in class_names])
    for name, row in zip(class_names, tokens, strict=True):
        if context is not None and int(row.argmax()) + 1 >= context:
            raise TrimtabError(
                f"The class {name[:40]!r} has too long a name for a text of {context} tokens; shorten it."
            )
    return tokens


def maple_encoder(name: str, base: object, saved: SavedPrompts, *, device: str = "cpu") -> MapleEncoder:
    """The towers of `base` with the saved prompts inside; prompts of another backbone are refused."""
    clip = openai_towers(base)
    assert isinstance(base, TorchEncoder)  # or it would have been refused
    towers = PromptedTowers(clip)
    towers.check(saved.learner, f"{saved.source} in {base.name}")
    check_backbone(saved, base.name, base.fingerprint, towers.visual.class_embedding.detach().cpu().numpy())
    model = PromptedClip(clip, saved.learner)
    factor, offset = (buffer.flatten().tolist() for buffer in (base.image_tower.factor, base.image_tower.offset))
    encoder = MapleEncoder(
        name,
        model,
        ImageHalf(model, towers),
        TextHalf(model, towers),
        base.tokenize,
        input_size=base.input_size,
        pixel_scale=PixelScale((factor[0], factor[1], factor[2]), (offset[0], offset[1], offset[2])),
        logit_scale=base.logit_scale,
        variant=f"maple on {base.fingerprint}",
        device=device,
    )
    encoder.learner, encoder.towers, encoder.backbone_fingerprint = saved.learner, towers, base.fingerprint
    encoder.trained_on = saved.about.get("trained_on", "")
    return encoder
