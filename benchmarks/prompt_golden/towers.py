"""The text tower of a golden file, as users get it: by the encoder's name and the class names."""

import numpy as np

from benchmarks.prompt_golden.files import Golden, largest
from benchmarks.prompt_golden.tiny_clip import tiny_clip, tiny_encoder
from trimtab.encoders.openai.model import OpenAIClip
from trimtab.encoders.prompted import text_tower
from trimtab.text_tower import TextTower


def model_and_tower(golden: Golden, position: str = "end") -> tuple[OpenAIClip, TextTower]:
    """The model, for its images, and the tower of the file's classes that starts at its context."""
    which = str(golden["clip_config"]), str(golden["clip_sha256"])
    names = [str(name) for name in golden["class_names"]]
    start = golden["ctx0"].astype(np.float32)
    return tiny_clip(*which), text_tower(tiny_encoder(*which), names, context=start, position=position)


def start_error(golden: Golden) -> float:
    """How far the embeddings of the file's first words are from its first context; 0 where it began at random."""
    words = str(golden["ctx_init"]).replace("_", " ")
    if not words:
        return 0.0
    encoder = tiny_encoder(str(golden["clip_config"]), str(golden["clip_sha256"]))
    return largest(text_tower(encoder, ["any", "name"], words=words).start, golden["ctx0"])
