"""SourceStats: what tokens look like inside an image tower on the data that its prompts were learned on.

PromptAlign pulls a test image's tokens towards them. `trimtab source-stats` makes the file; its header names the
backbone and the prompts, because statistics of others would pull towards nowhere.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError

Array = NDArray[np.float32]

FORMAT = "trimtab-source-stats"


@dataclass(frozen=True, eq=False)
class SourceStats:
    """Mean and (population) variance of the tokens that enter the first blocks, each (blocks, tokens, width)."""

    mean: Array
    variance: Array
    backbone: str  # fingerprint of the encoder without prompts
    prompts: str  # fingerprint of the prompts
    images: int = 0
    data: str = ""

    @property
    def blocks(self) -> int:
        """How many blocks are covered, from the first on."""
        return len(self.mean)

    @property
    def fingerprint(self) -> str:
        """A hash of all that an alignment depends on; what the data is called does not matter."""
        digest = hashlib.sha256(f"{self.backbone} {self.prompts} {self.mean.shape} ".encode())
        for array in (self.mean, self.variance):
            digest.update(np.ascontiguousarray(array, np.float32).tobytes())
        return digest.hexdigest()

    def content(self) -> bytes:
        """What a file holds: the arrays and the header, as safetensors."""
        from safetensors.numpy import save

        header = {"format": FORMAT, "backbone": self.backbone, "prompts": self.prompts, "data": self.data}
        header |= {"images": str(self.images), "blocks": str(self.blocks)}
        return save({"mean": self.mean, "variance": self.variance}, header)

    @classmethod
    def load(cls, file: Path | str) -> "SourceStats":
        """Statistics from a file, whole and with a header, or one sentence on what is wrong."""
        from safetensors import SafetensorError, safe_open

        path = Path(file).expanduser()
        if not path.is_file():
            raise TrimtabError(f"There is no file of source statistics {path}; make one with `trimtab source-stats`.")
        try:
            with safe_open(path, "np") as opened:
                header = opened.metadata() or {}
                arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise TrimtabError(f"{path} is not a safetensors file or is damaged ({error}).") from error
        if header.get("format") != FORMAT or not {"mean", "variance"} <= set(arrays):
            raise TrimtabError(f"{path} does not hold source statistics; make them with `trimtab source-stats`.")
        mean, variance = arrays["mean"], arrays["variance"]
        if mean.ndim != 3 or mean.shape != variance.shape or str(len(mean)) != header.get("blocks"):
            raise TrimtabError(f"{path} is damaged: its arrays do not have the shapes that its header states.")
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            raise TrimtabError(f"{path} holds NaN or infinity; make it again with `trimtab source-stats`.")
        images = int(header.get("images", "0"))
        return cls(mean, variance, header["backbone"], header["prompts"], images, header.get("data", ""))

    def check(self, file: str, backbone: str, prompts: str) -> None:
        """Refuse statistics of another backbone or of other prompts than these."""
        other = "another backbone" if self.backbone != backbone else "other prompts" if self.prompts != prompts else ""
        if other:
            raise TrimtabError(
                f"The source statistics in {file} were made with {other}; make them with this encoder: "
                "trimtab source-stats DATA --encoder maple:<file>+<encoder>."
            )
