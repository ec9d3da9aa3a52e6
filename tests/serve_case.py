"""A served stream for tests: made, filled, left as a kill leaves it, and compared bit for bit."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.serve import Request, StreamSettings, Tenant
from two_cones import two_cones

TASK, IMAGES, LABELS, _ = two_cones(400)


def settings(**given: Any) -> StreamSettings:
    return StreamSettings.from_dict(
        {"name": "s", "labels": TASK.class_names, "method": "mcp", "snapshot_every": 0} | given
    )


def made(path: Path, **given: Any) -> Tenant:
    return Tenant.create(path, settings(**given), TASK.text_prototypes, TASK.logit_scale)


def requests(first: int, last: int, **given: Any) -> list[Request]:
    return [Request(image, **given) for image in IMAGES[first:last]]


def after_a_kill(tenant: Tenant, path: Path) -> Path:
    """The stream's folder as a kill at this moment would leave it."""
    shutil.copytree(tenant.folder, path)
    return path


def learned(tenant: Tenant) -> dict[str, Any]:
    """All that a stream knows: the bytes of every array, and everything else."""
    with tenant._awake() as ledger:
        arrays = {name: array.tobytes() for name, array in ledger.memory.arrays().items()}
        return {**arrays, "note": json.dumps(ledger.memory.to_note())}


def stepped(path: Path, order: np.ndarray | range, **given: Any) -> dict[str, Any]:
    """What a stream knows that took in these images and was never disturbed."""
    tenant = made(path, **given)
    for index in order:
        tenant.classify(requests(index, index + 1))
    return learned(tenant)
