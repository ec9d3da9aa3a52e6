"""A block walked in one compiled loop against one step per image: the same writes, the same predictions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gentle import gentle_stream
from trimtab import DMN, MCP, TDA, Keel
from trimtab.methods.base import Method

WALKED: dict[str, tuple[type[Method], dict[str, Any]]] = {
    "mcp": (MCP, {}),
    "mcp, paper": (MCP, {"prototype_term": "affinity", "fusion": (1.0, 1.0, 1.0)}),
    "mcp, mean of views": (MCP, {"query": "confident_mean", "view_fraction": 0.5, "entropy_high": 0.69}),
    "mcp, small": (MCP, {"entropy_slots": 1, "align_slots": 2, "negative_slots": 1, "promotion": False}),
    "mcp, no align cache": (MCP, {"align_slots": 0, "text_scale": "stream"}),
    "tda": (TDA, {"entropy_high": 0.69}),
    "tda, plain": (TDA, {"query": "plain", "negative_slots": 0}),
    "dmn": (DMN, {"memory_slots": 3}),
    "keel": (Keel, {}),
}


def stepped(method: type[Method], **parameters: Any) -> Method:
    """The same method, taking one image at a time."""

    @dataclass(frozen=True, kw_only=True)
    class Stepped(method):  # type: ignore[valid-type, misc]
        """Inherits all but the walk."""

    return Stepped(**parameters)


@pytest.mark.parametrize("name", WALKED)
@pytest.mark.parametrize("views", [1, 4])
def test_a_walk_is_one_step_after_the_other(name: str, views: int) -> None:
    method, parameters = WALKED[name]
    task, features = gentle_stream(classes=7, dim=12, views=views, images=150, seed=3)
    walked, by_steps = method(**parameters).start(task), stepped(method, **parameters).start(task)
    found, expected = walked.run(features, block=32), by_steps.run(features, block=32)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-5)
    for part, values in expected.parts.items():
        np.testing.assert_allclose(found.parts[part], values, atol=1e-5, err_msg=part)
    for array, values in by_steps.arrays().items():
        exact = values.dtype.kind in "ib"
        np.testing.assert_allclose(walked.arrays()[array], values, atol=0 if exact else 1e-4, err_msg=array)
    assert walked.seen == 150


def test_what_a_subclass_changes_is_not_walked_past() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Silent(MCP):
        """Says nothing of what it keeps."""

        def predict(self, image: Any, state: Any) -> dict[str, Any]:
            return dict.fromkeys(self.parts, image.vote)

    task, features = gentle_stream(classes=5, dim=8, views=1, images=40, seed=0)
    result = Silent(fusion=(1.0, 1.0, 1.0)).start(task).run(features)
    np.testing.assert_allclose(result.probabilities, result.parts["text"], atol=1e-6)
