"""A stream gives the same bits wherever its arrays happen to lie: recovery and replay count on it.

New threads take memory from places of their own, so small arrays lie beside others than they do in the main thread.
Where a compiled loop both wrote and added up, that decided whether it ran in lanes, and so the last bit of the sum.
"""

import threading

import numpy as np
import pytest

from trimtab import Guard, Stream, make_method
from two_cones import two_cones

TASK, IMAGES, _, _ = two_cones(80)


def answers(method):
    stream = Stream(make_method(method), TASK, Guard())
    found = [stream.step(image) for image in IMAGES]
    return [answer.probabilities.tobytes() for answer in found], {n: a.tobytes() for n, a in stream.arrays().items()}


@pytest.mark.parametrize("method", ["mcp", "keel", "tda", "dmn"])
def test_every_thread_gives_the_same_bits(method):
    expected, results = answers(method), []
    threads = [threading.Thread(target=lambda: results.append(answers(method))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found, state in results:
        assert [n for n, bits in enumerate(found) if bits != expected[0][n]] == []
        assert [name for name in state if state[name] != expected[1][name]] == []


def test_where_an_array_lies_does_not_matter():
    from trimtab.engine.kernels import softmax_in_place

    room = np.zeros(400, np.float32)
    logits = np.random.default_rng(0).normal(size=23).astype(np.float32)
    expected = logits.copy()
    entropy = softmax_in_place(expected)
    for first in range(80):
        row = room[first : first + 23]
        row[:] = logits
        assert softmax_in_place(row) == entropy
        assert row.tobytes() == expected.tobytes()
