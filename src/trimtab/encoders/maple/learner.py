"""PromptLearner: what MaPLe learns, under the names of its authors' checkpoints.

    depth J, n vectors each          used at                       symbol
    ctx                              the text tower's input        P_1
    compound_prompts_text.i          text block i + 1              P_2 .. P_J
    proj, compound_prompt_projections.i   the same of the image tower   F_1 .. F_J (one linear map per depth)

The image tower's prompts are not learned themselves: each is a linear map of the text's, so both are learned together.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from trimtab.errors import TrimtabError

WORDS = "a photo of a"  # their embeddings are what learning begins with
DEVIATION = 0.02  # of prompts that begin at random


class Prompts(NamedTuple):
    """The vectors that stand at the input (entry 0) and replace the prompt positions before block i (entry i)."""

    text: Sequence[Tensor]  # each (n, text width)
    vision: Sequence[Tensor]  # each (n, vision width)


class PromptLearner(nn.Module):
    """The learned vectors and maps: `length` vectors at each of `depth` places."""

    def __init__(self, length: int, depth: int, text_width: int, vision_width: int) -> None:
        super().__init__()
        deeper = range(depth - 1)
        self.ctx = nn.Parameter(torch.empty(length, text_width))
        self.proj = nn.Linear(text_width, vision_width)
        self.compound_prompts_text = nn.ParameterList(nn.Parameter(torch.empty(length, text_width)) for _ in deeper)
        self.compound_prompt_projections = nn.ModuleList(nn.Linear(text_width, vision_width) for _ in deeper)

    def forward(self) -> Prompts:
        """The prompts of both towers."""
        text = [self.ctx, *self.compound_prompts_text]
        maps = [self.proj, *self.compound_prompt_projections]
        return Prompts(text, [project(vectors) for project, vectors in zip(maps, text, strict=True)])

    @property
    def length(self) -> int:
        """How many vectors stand at each place, n."""
        return self.ctx.shape[0]

    @property
    def depth(self) -> int:
        """At how many places, J: the input and the blocks 1 .. J - 1."""
        return 1 + len(self.compound_prompts_text)

    @property
    def opening(self) -> str:
        """The words that a text begins with, whose first `length` tokens the vectors replace."""
        return opening_words(self.length)


def opening_words(length: int) -> str:
    """The four words; where more vectors are learned than there are words, one placeholder for each vector."""
    return WORDS if length <= len(WORDS.split()) else " ".join(["X"] * length)


def new_learner(length: int, depth: int, words: Tensor, vision_width: int, seed: int) -> PromptLearner:
    """A learner as the released program begins: `words` (4, text width) are the embeddings of the opening words."""
    if length < 1 or depth < 1:
        raise TrimtabError(f"MaPLe needs at least one prompt vector and a depth of at least 1, not {length}, {depth}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        learner = PromptLearner(length, depth, words.shape[1], vision_width)
        with torch.no_grad():
            if length <= len(words):
                learner.ctx.copy_(words[:length])
            else:
                learner.ctx.normal_(std=DEVIATION)
            for vectors in learner.compound_prompts_text:
                vectors.normal_(std=DEVIATION)
            # The deeper maps are copies of one, so all begin with the same values.
            for project in list(learner.compound_prompt_projections)[1:]:
                project.load_state_dict(learner.compound_prompt_projections[0].state_dict())
    return learner


def learner_of(weights: Mapping[str, Tensor]) -> PromptLearner:
    """The learner that a checkpoint's tensors (under the authors' names) describe, in float32; KeyError names a gap."""
    vision_width, text_width = weights["proj.weight"].shape
    deeper = sum(name.startswith("compound_prompts_text.") for name in weights)
    with torch.device("meta"):
        learner = PromptLearner(weights["ctx"].shape[0], 1 + deeper, text_width, vision_width)
    learner.load_state_dict({name: value.float() for name, value in weights.items()}, strict=True, assign=True)
    return learner
