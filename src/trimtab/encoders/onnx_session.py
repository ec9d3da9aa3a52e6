"""ONNX Runtime, set up the same way for every encoder that uses it."""

from pathlib import Path
from typing import Any

from trimtab.errors import TrimtabError

# Two threads: one tower scales poorly beyond two on small inputs, and decoding images runs beside it.
THREADS = 2


def open_session(model: Path, device: str = "cpu") -> Any:
    """An inference session on `model`, on the CPU or, where this ONNX Runtime has it, on CUDA."""
    try:
        import onnxruntime
    except ImportError as error:
        raise TrimtabError("ONNX Runtime is not installed; run: pip install 'trimtab[onnx]'") from error
    providers = ["CPUExecutionProvider"]
    if device.startswith("cuda"):
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise TrimtabError("This ONNX Runtime has no CUDA support; run: pip install onnxruntime-gpu, or use cpu.")
        providers.insert(0, "CUDAExecutionProvider")
    elif device != "cpu":
        raise TrimtabError(f"ONNX encoders run on cpu or cuda, not on {device!r}.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=providers)
    except Exception as error:
        raise TrimtabError(
            f"{model} is not a model that ONNX Runtime can open: {str(error).splitlines()[0]}"
        ) from error
