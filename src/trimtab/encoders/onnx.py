"""`onnx:<folder>`: an encoder that `trimtab export` wrote, run by ONNX Runtime without torch.

The folder holds image.onnx ("pixels": (B, size, size, 3) bytes -> features), text.onnx ("tokens", "mask" -> features),
tokenizer.json with truncation and padding inside, and encoder.json.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import checked_pixels, checked_texts, first_line, unit_features
from trimtab.encoders.tokens import TextTokens
from trimtab.errors import TrimtabError
from trimtab.files import sha256_of

SETTINGS = "encoder.json"
FILES = (SETTINGS, "image.onnx", "text.onnx", "tokenizer.json")
FORMAT = 1
IMAGES_AT_ONCE = 16  # larger batches leave the processor's cache and were slower
TEXTS_AT_ONCE = 64
# Two threads: one tower scales poorly beyond two on small inputs, and decoding images runs beside it.
THREADS = 2
_threads_per_call = THREADS


class OnnxEncoder:
    """Two ONNX files and a tokenizer."""

    def __init__(self, name: str, folder: Path, device: str = "cpu") -> None:
        missing = [file for file in FILES if not (folder / file).is_file()]
        if missing:
            raise TrimtabError(f"{folder} is not an exported encoder: it has no {' and no '.join(missing)}.")
        settings = _read_settings(folder / SETTINGS)
        self.name = name
        self.dim: int = settings["dim"]
        self.input_size: int = settings["input_size"]
        self.logit_scale = float(settings["logit_scale"])
        self.logit_bias = float(settings.get("logit_bias", 0.0))
        self.precision = str(settings.get("precision", "fp32"))
        # Dynamic quantization scales each input by its own range, which must not be that of its neighbors.
        self._at_once = 1 if settings.get("quantized") == "dynamic" else IMAGES_AT_ONCE
        self._folder = folder
        self._device = device

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every file in the folder."""
        files = sorted(path for path in self._folder.iterdir() if path.is_file())
        return hashlib.sha256("\n".join(f"{path.name} {sha256_of(path)}" for path in files).encode()).hexdigest()

    def encode_images(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, input_size, input_size, 3) RGB bytes -> (B, d) unit features."""
        return unit_features(self._image_features, checked_pixels(pixels, self.input_size), self._at_once, self.dim)

    def keep_open(self) -> None:
        """Open both towers now, so that they run whatever becomes of their files."""
        _ = self._image, self._text, self._tokens

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Sentences -> (n, d) unit features."""
        return unit_features(self._text_features, checked_texts(texts), TEXTS_AT_ONCE, self.dim)

    def _image_features(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        return self._run(self._image, {"pixels": pixels})

    def _text_features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        tokens, mask = self._tokens(texts)
        return self._run(self._text, {"tokens": tokens, "mask": mask})

    @cached_property
    def _image(self) -> Any:
        return open_session(self._folder / "image.onnx", self._device)

    @cached_property
    def _text(self) -> Any:
        return open_session(self._folder / "text.onnx", self._device)

    @cached_property
    def _tokens(self) -> TextTokens:
        return TextTokens.open(self._folder / "tokenizer.json")

    def _run(self, session: Any, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        features = run_session(session, inputs)
        if features.shape[1:] != (self.dim,):
            raise TrimtabError(
                f"{self._folder} gives features of {features.shape[1:]}, but {SETTINGS} says {self.dim}."
            )
        return features


def load(name: str, device: str, precision: str) -> OnnxEncoder:
    """The encoder in a folder; its precision was fixed when it was exported."""
    need_runtime()
    encoder = OnnxEncoder(name, Path(name.partition(":")[2]).expanduser(), device)
    if precision not in ("fp32", encoder.precision):  # fp32 is what nobody asked for
        raise TrimtabError(
            f"{name} was exported in {encoder.precision} and runs in that; for another precision, "
            "export the encoder again with --precision."
        )
    return encoder


def use_threads(per_call: int) -> None:
    """How many threads a call takes, in sessions opened from now on; whoever makes calls side by side says 1."""
    global _threads_per_call
    _threads_per_call = per_call


def need_runtime() -> None:
    """An ImportError now where ONNX Runtime is missing; when a tower is opened, it would be told of every image."""
    if find_spec("onnxruntime") is None:
        raise ModuleNotFoundError("No module named 'onnxruntime'", name="onnxruntime")


def open_session(model: Path, device: str = "cpu") -> Any:
    """An inference session on `model`, on the CPU or, where this ONNX Runtime has it, on CUDA."""
    try:
        import onnxruntime
    except ImportError as error:
        raise TrimtabError("ONNX Runtime is not installed; run: pip install 'trimtab[onnx]'") from error
    providers: list[Any] = ["CPUExecutionProvider"]
    kind, _, number = device.partition(":")
    if kind == "cuda" and (not number or number.isdigit()):
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise TrimtabError("This ONNX Runtime has no CUDA support; run: pip install onnxruntime-gpu, or use cpu.")
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": int(number or 0)}))
    elif device != "cpu":
        raise TrimtabError(f"ONNX encoders run on cpu, cuda or cuda:<number>, not on {device!r}.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads_per_call
    options.inter_op_num_threads = 1
    # A thread that spins while it waits takes the processor from those that read images and adapt beside it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=providers)
    except Exception as error:  # ONNX Runtime raises its own kinds
        raise TrimtabError(f"{model} is not a model that ONNX Runtime can open: {first_line(error)}") from error


def run_session(session: Any, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """The session's one output; a tower that ignores the mask may have lost that input when it was exported."""
    wanted = {node.name for node in session.get_inputs()}
    if not wanted <= set(inputs):
        raise TrimtabError(f"An exported tower wants the inputs {sorted(wanted)}, not {sorted(inputs)}.")
    features: NDArray[np.float32]
    try:
        (features,) = session.run(None, {name: array for name, array in inputs.items() if name in wanted})
    except Exception as error:  # ONNX Runtime raises its own kinds
        message = f"An exported tower cannot be run ({first_line(error)}); export the encoder again."
        raise TrimtabError(message) from error
    return features


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        version = settings["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise TrimtabError(f"{file} does not describe an encoder ({error}); export it again.") from error
    if version != FORMAT:
        raise TrimtabError(f"{file} has the format {version}, but this trimtab reads format {FORMAT}.")
    numbers = {"dim": int, "input_size": int, "logit_scale": (int, float)}
    for key, kind in numbers.items():
        if not isinstance(settings.get(key), kind) or settings[key] <= 0:  # type: ignore[arg-type]
            raise TrimtabError(f"{file} gives no positive {key}; export the encoder again.")
    return dict(settings)
