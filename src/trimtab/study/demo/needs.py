"""What the demo needs, tried before anything is fetched: nobody downloads 170 MB to learn what is not installed."""

import importlib.util

import numpy as np

from trimtab.encoders import Encoder, load_encoder
from trimtab.errors import TrimtabError


def working_encoder() -> Encoder:
    """The lite encoder after it has encoded something, or one sentence that says what to install."""
    if importlib.util.find_spec("matplotlib") is None:
        raise TrimtabError("The demo draws with matplotlib; run: pip install 'trimtab[lite,plots]'")
    encoder = load_encoder("lite")
    try:
        encoder.encode_texts(["a photo"])
        encoder.encode_images(np.zeros((1, encoder.input_size, encoder.input_size, 3), np.uint8))
    except ImportError as error:
        raise TrimtabError(f"The lite encoder needs {error.name}; run: pip install 'trimtab[lite]'") from error
    return encoder
