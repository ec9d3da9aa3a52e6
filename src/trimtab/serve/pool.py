"""EncoderPool: each encoder that streams name, loaded once, when the first stream needs it."""

import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus

import numpy as np
from numpy.typing import NDArray

from trimtab.encoders.base import Encoder
from trimtab.encoders.onnx import use_threads
from trimtab.images.loader import usable_cores
from trimtab.prompts import text_prototypes
from trimtab.serve.encoding import Batch, SharedEncoder
from trimtab.serve.limits import Limits
from trimtab.serve.problems import Problem
from trimtab.serve.settings import StreamSettings

ONNX = ("lite", "onnx")  # kinds that encode with ONNX Runtime, which opens its sessions at their first use


class EncoderPool:
    """Encoders by name. `allowed` names those that a request may ask for; others would be read from anywhere.

    `load` gives the encoder of a name. Thread-safe; loading, which takes seconds, holds up only who needs it.
    """

    def __init__(
        self,
        load: Callable[[str], Encoder],
        *,
        allowed: Iterable[str] = ("lite",),
        limits: Limits | None = None,
        told: Callable[[Batch], None] | None = None,
        on_cpu: bool = True,
    ) -> None:
        self._load, self.allowed, self._limits, self._told = load, tuple(allowed), limits or Limits(), told
        self._on_cpu = on_cpu
        self._loaded: dict[str, SharedEncoder] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> SharedEncoder:
        """The encoder called `name`."""
        with self._lock:
            if name not in self._loaded:
                encoder, lanes = self._load(name), 1
                if self._on_cpu and name.partition(":")[0] in ONNX:
                    lanes = usable_cores()
                    use_threads(1)
                self._loaded[name] = SharedEncoder(
                    encoder,
                    lanes=lanes,
                    most_waiting=self._limits.pictures_waiting,
                    most_pixels=self._limits.pixels,
                    told=self._told,
                )
            return self._loaded[name]

    def refuse_unknown(self, name: str) -> None:
        """A request may name only what the operator has chosen."""
        if name not in self.allowed:
            known = ", ".join(self.allowed)
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"This server does not offer the encoder {name!r}; it has {known} (see --encoder).",
            )

    def loaded(self, name: str) -> SharedEncoder | None:
        """The encoder called `name`, if it is loaded: without a wait."""
        return self._loaded.get(name)

    def text(self, settings: StreamSettings) -> tuple[NDArray[np.float32], float]:
        """(C, d): the texts of a stream's labels; and the encoder's scale."""
        encoder = self.get(settings.encoder).encoder
        return text_prototypes(encoder, settings.labels, settings.templates), encoder.logit_scale

    @property
    def under_way(self) -> int:
        """Pictures being decoded or encoded."""
        return sum(shared.under_way for shared in self._loaded.values())

    def close(self) -> None:
        """Finish what is under way, then end."""
        for shared in self._loaded.values():
            shared.close()
