"""The tiny CLIP that the golden files of prompt learning were made with, as a checkpoint on disk."""

import json
from pathlib import Path

import numpy as np
import torch

from benchmarks.prompt_golden.tiny_clip import digest_of, tiny_weights

GOLDEN = Path(__file__).parent / "golden" / "prompt"


def golden(name):
    return np.load(GOLDEN / f"{name}.npz")


def write_golden_clip(file, folder):
    """The checkpoint that belongs to a golden file, checked against the digest in it; returns its path."""
    weights = tiny_weights(json.loads(str(file["clip_config"])))
    assert digest_of(weights) == str(file["clip_sha256"])
    path = Path(folder) / "clip.pt"
    torch.save({name: torch.from_numpy(array) for name, array in weights.items()}, path)
    return path
