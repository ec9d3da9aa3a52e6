"""Writing an encoder as a folder that `onnx:<folder>` opens, and torch modules as ONNX files that are checked."""

import contextlib
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.agreement import Agreement, agreement
from trimtab.encoders.base import first_line
from trimtab.encoders.onnx import FORMAT, SETTINGS, OnnxEncoder, open_session, run_session
from trimtab.encoders.onnx_half import halve_tower
from trimtab.encoders.onnx_int8 import quantize_tower
from trimtab.encoders.tokens import TextTokens
from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    import torch

    from trimtab.encoders.torch_encoder import TorchEncoder

TEXTS = ("a photo of a cat.", "a blurry photo of a golden retriever, seen from the side.", "x")
TOLERANCE = 1e-3  # of the largest output; float32 towers agree to about 1e-6
HALF_TOLERANCE = 0.02  # the same for unit features in fp16, which agree to about 1e-3
LONGEST_AXIS = 4096
LEAST_IMAGES = 16  # to calibrate eight bits on and to compare them on
ONE_FILE = 1_800_000_000  # bytes of weights; the format allows 2 GB, beyond that they go into a second file


def write_onnx_folder(
    encoder: "TorchEncoder", folder: Path, *, precision: str = "fp32", images: NDArray[np.uint8] | None = None
) -> tuple[dict[str, float], Agreement | None]:
    """Write `encoder` to `folder`; returns the largest differences of unit features from the original.

    `images`, (N, size, size, 3) of the kind that it will see, are for int8, which needs them, and for fp16: how well
    the encoder agrees with its float32 form is measured on them, and it is refused if it agrees badly. The image tower
    of int8 is calibrated on every second of them, and compared on the others. The folder appears only when it is
    complete.
    """
    check_free(folder)
    if not isinstance(encoder.tokenize, TextTokens):
        raise TrimtabError(f"The tokenizer of {encoder.name!r} cannot be written as a file, so it cannot be exported.")
    if precision == "int8" and (found := 0 if images is None else len(images)) < LEAST_IMAGES:
        raise TrimtabError(f"Eight bits need at least {LEAST_IMAGES} images to be checked on, not {found}.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=folder.parent) as scratch:
        written = Path(scratch) / "encoder"
        written.mkdir()
        _write_files(encoder, encoder.tokenize, written)
        exact = OnnxEncoder(f"onnx:{folder}", written)
        differences, agreed = _differences(encoder, exact), None
        if precision == "int8" and images is not None:
            agreed = _in_eight_bits(exact, written, images)
        elif precision == "fp16":
            differences, agreed = _in_half(encoder, exact, written, images)
        if folder.exists():
            folder.rmdir()
        written.rename(folder)
    return differences, agreed


def _in_eight_bits(exact: OnnxEncoder, folder: Path, images: NDArray[np.uint8]) -> Agreement:
    """Replace the image tower of the folder that `exact` runs from by one of eight bits."""
    quantized = folder / "image-int8.onnx"
    way = quantize_tower(folder / "image.onnx", quantized, images[::2])
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8")) | {"precision": "int8", "quantized": way}
    exact.keep_open()  # its files are about to be replaced
    for file in folder.glob("image.onnx*"):  # large towers have a second file of weights
        file.unlink()
    quantized.rename(folder / "image.onnx")
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    agreed = agreement(exact, OnnxEncoder(exact.name, folder), images[1::2])
    agreed.refuse_poor(exact.name, "int8")
    settings["agreement"] = asdict(agreed)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return agreed


def _in_half(
    original: "TorchEncoder", exact: OnnxEncoder, folder: Path, images: NDArray[np.uint8] | None
) -> tuple[dict[str, float], Agreement | None]:
    """Replace both towers of the folder that `exact` runs from by towers of fp16."""
    exact.keep_open()
    for name in ("image.onnx", "text.onnx"):
        half = folder / f"half-{name}"
        weights = sum(file.stat().st_size for file in folder.glob(f"{name}*"))
        halve_tower(folder / name, half, second_file=weights > 2 * ONE_FILE)
        for file in folder.glob(f"{name}*"):
            file.unlink()
        half.rename(folder / name)
    settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8")) | {"precision": "fp16"}
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    written = OnnxEncoder(exact.name, folder)
    differences = _differences(original, written)
    if not max(differences.values()) < HALF_TOLERANCE:  # also if one is NaN: fp16 ends at 65504
        raise TrimtabError(
            f"{original.name} does not stand fp16: unit features differ by up to {max(differences.values()):.1e} from "
            "float32; keep fp32."
        )
    if images is None or not len(images):
        return differences, None
    agreed = agreement(exact, written, images)
    agreed.refuse_poor(exact.name, "fp16")
    settings["agreement"] = asdict(agreed)
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return differences, agreed


def check_free(folder: Path) -> None:
    """Refuse a folder that something would be overwritten in."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TrimtabError(f"{folder} is already there and not empty; choose another folder or remove it.")


def _differences(original: "TorchEncoder", exported: OnnxEncoder) -> dict[str, float]:
    """The largest absolute difference between the unit features of both, for images and for texts."""
    size = original.input_size
    pixels = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    images = np.abs(original.encode_images(pixels) - exported.encode_images(pixels)).max()
    texts = np.abs(original.encode_texts(TEXTS) - exported.encode_texts(TEXTS)).max()
    return {"images": float(images), "texts": float(texts)}


def _write_files(encoder: "TorchEncoder", tokens: TextTokens, folder: Path) -> None:
    import torch

    size = encoder.input_size
    pixels = torch.randint(0, 256, (2, size, size, 3), dtype=torch.uint8)
    export_onnx(encoder.image_tower, (pixels,), ["pixels"], [{0: "images"}], folder / "image.onnx")
    ids, mask = (torch.from_numpy(array) for array in tokens(TEXTS[:2]))
    # A tokenizer that always fills up the context leaves no second axis to vary.
    shape = {0: "texts"} if tokens.fixed_length else {0: "texts", 1: "length"}
    limits = {"length": tokens.context}
    export_onnx(encoder.sentence_tower, (ids, mask), ["tokens", "mask"], [shape, shape], folder / "text.onnx", limits)
    tokens.save(folder / "tokenizer.json")
    settings = {
        "format": FORMAT,
        "exported_from": encoder.name,
        "dim": encoder.dim,
        "input_size": size,
        "logit_scale": encoder.logit_scale,
        "logit_bias": encoder.logit_bias,
    }
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def export_onnx(
    module: "torch.nn.Module",
    example: "tuple[torch.Tensor, ...]",
    names: Sequence[str],
    dynamic: Sequence[Mapping[int, str]],
    path: Path,
    limits: Mapping[str, int] | None = None,
) -> None:
    """Write `module` to `path` with the inputs `names` and one output called "features".

    `dynamic[i]` names the axes of input i that may change; axes with one name always change together. `limits` says how
    long a named axis may get.
    The file is then run on `example` and on its first row alone, and must give what the module gives.
    """
    try:
        import onnx  # noqa: F401  (checked here, because torch's own message does not say what to install)
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise TrimtabError(f"{error.name} is not installed; run: pip install 'trimtab[clip,onnx]'") from error

    used = {name for shape in dynamic for name in shape.values()}
    axes = {name: torch.export.Dim(name, min=1, max=(limits or {}).get(name, LONGEST_AXIS)) for name in used}
    try:
        with _quiet(), torch.inference_mode():
            torch.onnx.export(
                module,
                example,
                str(path),
                input_names=list(names),
                output_names=["features"],
                dynamic_shapes=tuple({axis: axes[name] for axis, name in shape.items()} for shape in dynamic),
                dynamo=True,
                external_data=sum(weight.nbytes for weight in module.parameters()) > ONE_FILE,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise TrimtabError(f"This torch cannot write the model as ONNX: {first_line(error)}") from error
    session = open_session(path)
    for part in (example, tuple(tensor[:1] for tensor in example)):
        with torch.inference_mode():
            expected = module(*part).float().cpu().numpy()
        _check_output(session, {name: tensor.cpu().numpy() for name, tensor in zip(names, part, strict=True)}, expected)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's exporter, which reports its progress on standard output; that belongs to the caller."""
    chatter = logging.getLogger("torch.onnx")
    level = chatter.level
    chatter.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        chatter.setLevel(level)


def _check_output(session: Any, inputs: Mapping[str, NDArray[Any]], expected: NDArray[np.float32]) -> None:
    try:
        written = run_session(session, inputs)
    except Exception as error:  # ONNX Runtime raises its own kinds
        raise TrimtabError(f"The ONNX file does not take a batch of {len(expected)}: {first_line(error)}") from error
    difference = float(np.abs(written - expected).max() / np.abs(expected).max())
    if not difference < TOLERANCE:
        raise TrimtabError(f"The ONNX file differs from the original by {difference:.1e} of its largest output.")
