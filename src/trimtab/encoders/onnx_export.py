"""From a torch module to one self-contained ONNX file."""

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.encoders.onnx_session import open_session
from trimtab.errors import TrimtabError

TOLERANCE = 1e-3  # of the largest output; float32 towers agree to about 1e-6
LONGEST_AXIS = 4096
ONE_FILE = 1_800_000_000  # bytes of weights; the format allows 2 GB, beyond that they go into a second file


def export_onnx(
    module: Any,
    example: tuple[Any, ...],
    names: Sequence[str],
    dynamic: Sequence[dict[int, str]],
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
    shapes = tuple({axis: axes[name] for axis, name in shape.items()} for shape in dynamic)
    parts = [example, tuple(tensor[:1] for tensor in example)]
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
                external_data=sum(weight.nbytes for weight in module.parameters()) > ONE_FILE,
                verbose=False,
            )
            expected = [module(*part).float().cpu().numpy() for part in parts]
    except torch.onnx.OnnxExporterError as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise TrimtabError(f"This torch cannot write the model as ONNX: {reason}") from error
    finally:
        chatter.setLevel(level)
    session = open_session(path)
    for part, right in zip(parts, expected, strict=True):
        wanted = {node.name for node in session.get_inputs()}
        inputs = {name: tensor.cpu().numpy() for name, tensor in zip(names, part, strict=True) if name in wanted}
        try:
            (written,) = session.run(None, inputs)
        except Exception as error:  # ONNX Runtime raises its own kinds
            raise TrimtabError(f"The ONNX file does not take a batch of {len(right)}: {error}") from error
        difference = float(np.abs(written - right).max() / np.abs(right).max())
        if not difference < TOLERANCE:
            raise TrimtabError(f"The ONNX file differs from the original by {difference:.1e} of its largest output.")
