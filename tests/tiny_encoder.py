"""An encoder small enough for tests: it knows colors, in pictures and in sentences."""

import hashlib
from pathlib import Path

import numpy as np

from trimtab.encoders.prompted.context_files import read_context
from trimtab.toy_tower import ToyTower

COLORS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "yellow": (220, 210, 30)}


class ColorEncoder:
    """A picture's feature is the color of its nine ninths; a sentence's is the color that it names."""

    name = "colors"
    dim = 28
    input_size = 24
    logit_scale = 30.0

    def __init__(self, recipe="1"):
        self.fingerprint = hashlib.sha256(f"colors {recipe}".encode()).hexdigest()
        self.calls = []

    def encode_images(self, pixels):
        assert pixels.dtype == np.uint8
        assert pixels.shape[1:] == (24, 24, 3)
        self.calls.append(len(pixels))
        ninths = pixels.reshape(len(pixels), 3, 8, 3, 8, 3).mean(axis=(2, 4)).reshape(len(pixels), 27) / 255 - 0.4
        rows = np.concatenate([ninths, np.full((len(pixels), 1), 0.1)], axis=1).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode_texts(self, texts):
        named = [next((rgb for name, rgb in COLORS.items() if name in text), (127, 127, 127)) for text in texts]
        return self.encode_images(np.tile(np.array(named, np.uint8)[:, None, None], (1, 24, 24, 1)))


def colored(name, seed, height=40, width=60, noise=40):
    """A grainy picture of one color."""
    rng = np.random.default_rng(seed)
    grain = rng.integers(-noise, noise + 1, (height, width, 3))
    return np.clip(np.array(COLORS[name]) + grain, 0, 255).astype(np.uint8)


class PromptedColorEncoder(ColorEncoder):
    """The same, with a toy text tower whose texts have strayed from the pictures: there is something to learn."""

    def text_tower(self, class_names, *, words="a photo of a", position=None, context=None):
        if isinstance(context, (str, Path)):
            context = read_context(context).context
        if context is None:
            context = np.stack([self._word(word) for word in words.split()])
        place = ["end", "middle", "front"].index(position or "end")
        strayed = self.encode_texts(class_names) + 2 * np.stack([self._word(name, self.dim) for name in class_names])
        tower = ToyTower(strayed / np.linalg.norm(strayed, axis=1, keepdims=True), seed=place, reach=3.0)
        tower.start = np.asarray(context, np.float32)
        return tower

    def _word(self, word, width=6):
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
        return np.random.default_rng(seed).normal(scale=0.3, size=width).astype(np.float32)
