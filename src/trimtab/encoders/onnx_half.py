"""An exported tower in half precision (fp16), by ONNX Runtime's own converter.

Files become half as large. GPUs compute with them; ONNX Runtime's CPU makes float32 of them again when it opens a file,
so they are neither faster nor slower there. bfloat16 has no such way: its convolution does not take it.
"""

import warnings
from pathlib import Path

from trimtab.encoders.base import first_line
from trimtab.encoders.onnx_int8 import before_convolutions
from trimtab.errors import TrimtabError


def halve_tower(model: Path, out: Path, *, second_file: bool) -> None:
    """Write `model` in fp16 to `out`; inputs and outputs stay as they are, and so does how bytes are scaled."""
    try:
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16
    except ImportError as error:
        raise TrimtabError(f"{error.name} is not installed; run: pip install 'trimtab[onnx]'") from error
    tower = onnx.load(str(model))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers too small for fp16 become its smallest one
            half = convert_float_to_float16(tower, keep_io_types=True, node_block_list=before_convolutions(tower))
    except Exception as error:  # the converter raises many kinds for models that it does not know
        raise TrimtabError(f"ONNX Runtime cannot make fp16 of {model.name}: {first_line(error)}") from error
    onnx.save(half, str(out), save_as_external_data=second_file, location=f"{out.name}.data")
