"""An exported image tower in eight bits, by ONNX Runtime's own tools.

Towers of matrix products (vision transformers) are quantized dynamically: weights once, per channel; inputs as they
come, from their own range. Towers of convolutions are quantized statically, which is the only way that is fast: the
ranges of all intermediate values are those that the calibration images show. What rounding shifts in the features, the
same for every image, is then added again: the mean difference on the calibration images (bias correction, Nagel,
van Baalen, Blankevoort and Welling, ICCV 2019, for the last layer alone).
"""

import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import first_line
from trimtab.encoders.onnx import open_session, run_session
from trimtab.errors import TrimtabError

AT_ONCE = 8  # calibration images per run: all intermediate values are kept
PRODUCTS = ("MatMul", "Gemm")
# What stays in eight bits between two convolutions. To leave a clip out would round the whole range before it.
BESIDE_CONVOLUTIONS = ("Conv", "Add", "Clip", "Relu", "MaxPool", "AveragePool", "Concat")
# The first convolutions stay in float32: they have few channels, whose ranges differ most, and cost little.
FLOAT_CONVOLUTIONS = 3


def quantize_tower(model: Path, out: Path, calibration: NDArray[np.uint8]) -> str:
    """Write `model` in eight bits to `out`, calibrated on (N, size, size, 3) images; says how: dynamic or static."""
    try:
        import onnx
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise TrimtabError(f"{error.name} is not installed; run: pip install 'trimtab[onnx]'") from error
    tower = onnx.load(str(model))
    way = "dynamic" if _by_products(tower) else "static"
    eight_bits: dict[str, Any] = {"per_channel": True, "weight_type": quantization.QuantType.QInt8}
    chatter = logging.getLogger()
    level = chatter.level
    chatter.setLevel(logging.ERROR)  # it advises preprocessing on the root logger, also after preprocessing
    try:
        if way == "dynamic":
            del tower.graph.value_info[:]  # torch notes shapes that no longer hold once weights are transposed
            quantization.quantize_dynamic(tower, out, op_types_to_quantize=list(PRODUCTS), **eight_bits)
        else:
            with tempfile.TemporaryDirectory() as scratch:
                prepared = Path(scratch) / "prepared.onnx"
                quant_pre_process(model, prepared, skip_symbolic_shape=True)
                quantization.quantize_static(
                    prepared,
                    out,
                    _Calibration(calibration),
                    activation_type=quantization.QuantType.QUInt8,  # times signed weights: twice as fast on x86
                    op_types_to_quantize=list(BESIDE_CONVOLUTIONS),
                    nodes_to_exclude=before_convolutions(onnx.load(str(prepared)), FLOAT_CONVOLUTIONS),
                    **eight_bits,
                )
            _shift_back(model, out, calibration)
    except Exception as error:  # the tools raise many kinds for models that they do not know
        raise TrimtabError(f"ONNX Runtime cannot quantize this image tower: {first_line(error)}") from error
    finally:
        chatter.setLevel(level)
    return way


def _shift_back(exact: Path, quantized: Path, images: NDArray[np.uint8]) -> None:
    """Add to the quantized tower's features the mean of what the exact ones have more, on these images."""
    import onnx

    means = []
    for tower in (exact, quantized):
        session = open_session(tower)
        batches = (images[start : start + AT_ONCE] for start in range(0, len(images), AT_ONCE))
        means.append(np.concatenate([run_session(session, {"pixels": batch}) for batch in batches]).mean(axis=0))
    model = onnx.load(str(quantized))
    (features,) = model.graph.output
    (last,) = [node for node in model.graph.node if features.name in node.output]
    last.output[list(last.output).index(features.name)] = "shifted_features"
    shift = onnx.numpy_helper.from_array((means[0] - means[1]).astype(np.float32), "shift_of_rounding")
    model.graph.initializer.append(shift)
    model.graph.node.append(onnx.helper.make_node("Add", ["shifted_features", shift.name], [features.name]))
    onnx.save(model, str(quantized))


class _Calibration:
    """The images, some at a time, as ONNX Runtime's calibration asks for them."""

    def __init__(self, pixels: NDArray[np.uint8]) -> None:
        self._batches = iter([pixels[start : start + AT_ONCE] for start in range(0, len(pixels), AT_ONCE)])

    def get_next(self) -> dict[str, NDArray[np.uint8]] | None:
        """The next inputs of the tower, or None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {"pixels": batch}


def before_convolutions(model: Any, passed: int = 0) -> list[str]:
    """The steps from bytes to the input of a convolution, the first or one that comes after `passed` others.

    What turns bytes into the first one's input always stays exact: it costs little and decides all else.
    """
    convolutions = [place for place, node in enumerate(model.graph.node) if node.op_type == "Conv"]
    if not convolutions:
        return []
    return [node.name for node in model.graph.node[: convolutions[min(passed, len(convolutions) // 4)]]]


def _by_products(model: Any) -> bool:
    """Whether the tower has more matrix products with weights than convolutions.

    They are counted, not weighed: a ResNet's pooling holds a third of its weights, and does next to none of its work.
    """
    weights = {weight.name for weight in model.graph.initializer}
    kinds = [node.op_type for node in model.graph.node if weights.intersection(node.input)]
    return sum(kinds.count(product) for product in PRODUCTS) > kinds.count("Conv")
