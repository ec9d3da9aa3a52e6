"""From a torch module to one self-contained ONNX file."""

import contextlib
import io
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.encoders.onnx_session import open_session
from trimtab.errors import TrimtabError

TOLERANCE = 1e-3  # of the largest output; float32 towers agree to about 1e-6


def export_onnx(
    module: Any, example: tuple[Any, ...], names: Sequence[str], dynamic: Sequence[dict[int, str]], path: Path
) -> float:
    """Write `module` to `path` with the inputs `names` and one output called "features".

    `dynamic[i]` names the axes of input i that may change; axes with one name always change together.
    The file is then run on `example`; returns its largest difference from the module, as a share of the largest output.
    """
    try:
        import onnx  # noqa: F401  (checked here, because torch's own message does not say what to install)
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        raise TrimtabError(f"{error.name} is not installed; run: pip install 'trimtab[clip,onnx]'") from error

    axes = {name: torch.export.Dim(name, min=1, max=4096) for shape in dynamic for name in shape.values()}
    shapes = tuple({axis: axes[name] for axis, name in shape.items()} for shape in dynamic)
    chatter = logging.getLogger("torch.onnx")
    level = chatter.level
    chatter.setLevel(logging.ERROR)
    try:
        # The exporter reports its progress on standard output, which belongs to the caller.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.inference_mode():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                example,
                str(path),
                input_names=list(names),
                output_names=["features"],
                dynamic_shapes=shapes,
                dynamo=True,
                external_data=False,  # one file; the format allows 2 GB
                verbose=False,
            )
            expected = module(*example).float().cpu().numpy()
    finally:
        chatter.setLevel(level)
    inputs = {name: tensor.cpu().numpy() for name, tensor in zip(names, example, strict=True)}
    (written,) = open_session(path).run(None, inputs)
    difference = float(np.abs(written - expected).max() / np.abs(expected).max())
    if not difference < TOLERANCE:
        raise TrimtabError(f"The ONNX file differs from the original by {difference:.1e} of its largest output.")
    return difference
