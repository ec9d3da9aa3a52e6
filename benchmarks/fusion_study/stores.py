"""The features that the study runs on: real images through the encoder `lite`, and CLIP-like synthetic features.

    python -m benchmarks.fusion_study.stores FOLDER

writes one .npz per store. Any other .npz of the same fields that lies in the folder (features of a real CLIP, say)
takes part in the study too: `features` (N, d) or (N, V, d), `labels`, `text`; if any, `logit_scale`, `domain` and
`class_names`.
"""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from benchmarks.command_line import FOLDER, run_study
from benchmarks.synthetic import LOGIT_SCALE, Shape, make_features
from trimtab.data.base import ImageSet
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.features.npz import read_npz

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Store:
    """Features of one data set, in its own order."""

    name: str
    features: NDArray[np.float32]  # (N, V, d)
    labels: NDArray[np.int64]
    text: NDArray[np.float32]
    logit_scale: float
    domain: NDArray[np.int64] | None
    class_names: NDArray[np.str_] | None


def load_stores(folder: Path, wanted: Sequence[str] = ()) -> Iterator[Store]:
    """The stores of the folder, or only the wanted ones, which must be there; each is read when its turn comes."""
    paths = {path.stem: path for path in sorted(folder.glob("*.npz"))}
    if not paths:
        some = "python -m benchmarks.fusion_study.stores FOLDER writes some"
        raise TrimtabError(f"There are no stores (.npz files) in {folder}; {some}.")
    for name in wanted:
        if name not in paths:
            raise TrimtabError(f"There is no store {name!r} in {folder}; it holds {', '.join(paths)}.")
    return (_load(path) for name, path in paths.items() if not wanted or name in wanted)


def _load(path: Path) -> Store:
    arrays = read_npz(path, "features", "labels", "text")
    features = arrays["features"].astype(np.float32)
    features = features[:, None] if features.ndim == 2 else features
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    return Store(
        path.stem,
        features,
        arrays["labels"].astype(np.int64),
        arrays["text"].astype(np.float32),
        float(arrays["logit_scale"]) if "logit_scale" in arrays else 100.0,  # CLIP's
        arrays["domain"].astype(np.int64) if "domain" in arrays else None,
        arrays.get("class_names"),
    )


def _noise(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    noisy = pixels + rng.normal(0, 25, pixels.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def _blur(pixels: Pixels, _: np.random.Generator) -> Pixels:
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(1.2)))


def _low_contrast(pixels: Pixels, _: np.random.Generator) -> Pixels:
    return ((pixels - pixels.mean()) * 0.25 + pixels.mean()).clip(0, 255).astype(np.uint8)


def _jpeg(pixels: Pixels, _: np.random.Generator) -> Pixels:
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "JPEG", quality=10)
    return np.asarray(Image.open(packed))


def _pixelated(pixels: Pixels, _: np.random.Generator) -> Pixels:
    height, width = pixels.shape[:2]
    small = Image.fromarray(pixels).resize((width * 5 // 8, height * 5 // 8), Image.Resampling.BOX)
    return np.asarray(small.resize((width, height), Image.Resampling.BOX))


CORRUPTIONS: dict[str, Callable[[Pixels, np.random.Generator], Pixels]] = {
    "noise": _noise,
    "blur": _blur,
    "contrast": _low_contrast,
    "jpeg": _jpeg,
    "pixelated": _pixelated,
}


def build(folder: Path) -> None:
    """Write every store that is not in the folder yet."""
    from trimtab.data.fetched.cifar import cifar10
    from trimtab.data.fetched.emoji import emoji
    from trimtab.data.fetched.fashion import fashion_mnist
    from trimtab.data.fetched.groceries import groceries

    folder.mkdir(parents=True, exist_ok=True)
    _build_synthetic(folder)
    encode(folder, "lite_groceries_fine", groceries("fine"))
    encode(folder, "lite_groceries_coarse", groceries("coarse"))
    encode(folder, "lite_groceries_8views", groceries("fine"), views=8)
    encode(folder, "lite_emoji_fine", emoji("fine"))
    encode(folder, "lite_emoji_coarse", emoji("coarse"))
    encode(folder, "lite_fashion", fashion_mnist(), most=3000)
    encode(folder, "lite_cifar10", cifar10(), most=5000)
    encode(folder, "lite_cifar10_corrupted", cifar10(), most=5000, corrupt=True)
    encode(folder, "lite_cifar10_16views", cifar10(), most=800, views=16)


def _build_synthetic(folder: Path) -> None:
    """As CLIP sees ImageNet; and two where what images say is better or worse aligned with what the text says."""
    shapes = {
        "synthetic_1000": (1000, 512, 4000, Shape()),
        "synthetic_100": (100, 512, 3000, Shape()),
        "synthetic_50_text_off": (50, 512, 3000, Shape(agreement=0.22)),
        "synthetic_200_deceptive": (200, 512, 3000, Shape(deceptive=0.45)),
    }
    for name, (classes, dim, images, shape) in shapes.items():
        path = folder / f"{name}.npz"
        if not path.exists():
            features, labels, text = make_features(classes, dim, 1, images, seed=7, shape=shape)
            np.savez(path, features=features, labels=labels, text=text, logit_scale=LOGIT_SCALE)


def encode(
    folder: Path,
    name: str,
    images: ImageSet,
    *,
    most: int | None = None,
    views: int = 1,
    corrupt: bool = False,
    encoder: Encoder | None = None,
) -> None:
    """Write the store of a set through an encoder, `lite` if none is given, if it is not in the folder yet."""
    from trimtab.encoders import load_encoder
    from trimtab.images.views import make_views
    from trimtab.prompts.prototypes import text_prototypes

    path = folder / f"{name}.npz"
    if path.exists():
        return
    print(f"{name}: encoding", file=sys.stderr)
    encoder = encoder or load_encoder("lite")
    text = text_prototypes(encoder, images.class_names, images.templates)
    chosen = np.random.default_rng(0).permutation(len(images))[:most]
    kinds = list(CORRUPTIONS)
    domain = chosen.argsort().argsort() % len(kinds) if corrupt else None
    if images.domains is not None:
        domain = np.unique(images.domains, return_inverse=True)[1][chosen]
    features = np.empty((len(chosen), views, encoder.dim), np.float16)
    for start in range(0, len(chosen), 32):
        batch = range(start, min(start + 32, len(chosen)))
        pixels = np.empty((len(batch), views, encoder.input_size, encoder.input_size, 3), np.uint8)
        for out, row in zip(pixels, batch, strict=True):
            image = images.load(int(chosen[row]))
            if corrupt and domain is not None:
                image = CORRUPTIONS[kinds[domain[row]]](image, np.random.default_rng(row))
            make_views(image, encoder.input_size, views, 0, out=out)
        encoded = encoder.encode_images(pixels.reshape(-1, *pixels.shape[2:]))
        features[batch.start : batch.stop] = encoded.reshape(len(batch), views, -1)
    fields: dict[str, object] = {"features": features, "labels": images.labels[chosen], "text": text}
    fields |= {"logit_scale": encoder.logit_scale} | ({} if domain is None else {"domain": domain})
    np.savez(path, **fields)  # type: ignore[arg-type]


if __name__ == "__main__":
    run_study(build, __doc__, FOLDER)
