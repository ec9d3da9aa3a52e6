"""The contract that every method must keep, as a function that anyone can run on a method of their own.

    from trimtab.checks import check_method
    check_method(MyMethod())

Each check is a plain function that raises AssertionError with a sentence; `check_method` runs them all on small random
streams with one view and with several. A method that needs a text tower gets a toy one.
"""

import gc
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher
from numpy.typing import NDArray

from trimtab import arguments
from trimtab.engine.arrays import Array, unit_rows
from trimtab.errors import TrimtabError
from trimtab.guard.rules import Guard
from trimtab.methods.base import Method
from trimtab.stream import Prediction, Predictions, Stream
from trimtab.task import Task
from trimtab.text_tower import TextTower
from trimtab.toy_tower import ToyTower

SAME = 1e-5  # how close `run` and repeated `step`s must be
# What a stream leads to and does not hold: the task, and code, compiled or not.
NOT_HELD = (type, ModuleType, FunctionType, BuiltinFunctionType, CPUDispatcher, Task)

Check = Callable[[Method, Task, Array], None]


def check_method(
    method: Method,
    *,
    classes: int = 7,
    dim: int = 16,
    images: int = 150,
    seed: int = 0,
    text_tower: TextTower | None = None,
) -> None:
    """Run every check on a method; the first broken promise raises AssertionError.

    `text_tower` replaces the toy one for a method that needs one; `classes` and `dim` must be its own.
    """
    arguments.instance("method", method, Method, "a method such as MCP()")
    arguments.whole("images", images, least=3)
    for views in (1, 12):
        task, features = random_stream(classes, dim, views, images, seed, method.needs)
        if text_tower is not None:
            task = Task(task.class_names, task.text_prototypes, task.logit_scale, text_tower)
        for check in CHECKS:
            check(method, task, features)


def random_stream(
    classes: int, dim: int, views: int, images: int, seed: int, needs: Collection[str] = ()
) -> tuple[Task, Array]:
    """A task and a stream (N, V, d) around it: easy and hard images, differing views, a gap between modalities.

    `needs` are those of the method to come: "text_tower" puts a toy one into the task.
    """
    missing = sorted(set(needs) - {"text_tower"})
    if missing:
        raise TrimtabError(
            f"A random stream has features only, and no {missing[0]}; check the method by tests of its own."
        )
    for name, size in (("dim", dim), ("views", views), ("images", images)):
        arguments.whole(name, size, least=1)
    arguments.whole("classes", classes, least=2)
    random = np.random.default_rng(arguments.whole("seed", seed, least=0))
    text = unit_rows(random.normal(size=(classes, dim)))
    centers = text + 0.7 * unit_rows(random.normal(size=(classes, dim))) + 0.8 * unit_rows(random.normal(size=dim))
    noise = random.uniform(0.2, 1.5, size=(images, 1))
    plain = centers[random.integers(classes, size=images)] + noise * unit_rows(random.normal(size=(images, dim)))
    spread = 0.4 * unit_rows(random.normal(size=(images, views, dim)))
    spread[:, 0] = 0
    tower = ToyTower(text, seed=seed) if "text_tower" in needs else None
    return Task([f"class {c}" for c in range(classes)], text, 20.0, tower), unit_rows(plain[:, None] + spread)


def step_equals_run(method: Method, task: Task, features: Array) -> None:
    """`run` gives the same numbers as one step per image, for any block size, and can be continued by either."""
    stream = method.start(task)
    stepped = _stack(stream.step(views) for views in features)
    for block in (1, 7, len(features)):
        _assert_close(stepped, method.start(task).run(features, block=block), f"run(block={block}) and step differ")
    third = len(features) // 3
    stream = method.start(task)
    pieces = [stream.run(features[:third]), _stack(stream.step(v) for v in features[third : 2 * third])]
    pieces.append(stream.run(features[2 * third :]))
    joined = np.concatenate([piece.probabilities for piece in pieces])
    assert np.abs(joined - stepped.probabilities).max() <= SAME, "run, step and run again differ from one run"


def predictions_are_distributions(method: Method, task: Task, features: Array) -> None:
    """Every part and the fused prediction are probabilities, and the label is the most probable class."""
    result = method.start(task).run(features)
    assert tuple(result.parts) == tuple(method.parts), "the parts of a run are not the parts the method declares"
    for name, part in {**result.parts, "fused": result.probabilities}.items():
        assert part.shape == (len(features), task.classes), f"{name} has the shape {part.shape}"
        assert np.isfinite(part).all(), f"{name} is not finite"
        assert (part >= 0).all(), f"{name} holds negative numbers"
        assert np.abs(part.sum(axis=1) - 1).max() < 1e-3, f"{name} does not sum to 1"
    assert (result.labels == result.probabilities.argmax(axis=1)).all(), "labels are not the most probable classes"


def predict_foretells_step(method: Method, task: Task, features: Array) -> None:
    """`predict` gives what `step` gives after a cut, and the state is bit for bit as before; so it is after `read`."""
    stream, unseen = method.start(task), method.start(task)
    for number, views in enumerate(features[: 2 * len(features) // 3]):
        unseen.step(views)
        if number >= 20 and number % 7:
            stream.step(views)
            continue
        before = _snapshot(stream)
        stream.predict(features[-1])  # another image: nothing of it may stay where the next answer could see it
        stream.read(features[-2])
        foretold = stream.predict(views)
        _assert_same_state(before, stream, "predict or read changed the state")
        after_a_cut = stream.copy()
        after_a_cut.cut()
        stepped = after_a_cut.step(views)
        stream.step(views)
        for name, part in {**stepped.parts, "the answer": stepped.probabilities}.items():
            found = foretold.parts.get(name, foretold.probabilities)
            assert np.array_equal(found, part), f"predict does not foretell, bit for bit, what step says in {name}"
    _assert_same_state(_snapshot(unseen), stream, "a stream that was asked ends in another state than one that was not")


def guards_leave_no_trace(method: Method, task: Task, features: Array) -> None:
    """Under a guard `run` still equals `step`, and an image that is refused changes nothing of what was learned."""
    suspect = features.copy()
    suspect[5::9] = suspect[4:-1:9][: len(suspect[5::9])]  # each of these repeats the image before it
    stream = method.start(task, Guard())
    refused, answers = 0, []
    for views in suspect:
        before = _learned(stream)
        answers.append(stream.step(views))
        if "Not learned" in stream.why(stream.seen - 1):
            refused += 1
            for name, content in _learned(stream).items():
                assert content == before[name] or "temper" in name, f"a refused image changed {name}"
    assert refused or stream.watch is None, "the guard refused nothing of a stream with duplicates"
    stepped = _stack(iter(answers))
    for block in (7, len(suspect)):
        other = method.start(task, Guard())
        _assert_close(stepped, other.run(suspect, block=block), f"under a guard, run(block={block}) and step differ")


def save_and_load_continue(method: Method, task: Task, features: Array) -> None:
    """A saved and loaded stream continues bit for bit, and so does a copy."""
    half = len(features) // 2
    stream = method.start(task)
    stream.run(features[:half])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        stream.save(path)
        loaded = Stream.load(path, task, method)
    copied = stream.copy()
    expected = stream.run(features[half:])
    for other, what in ((loaded, "loaded"), (copied, "copied")):
        result = other.run(features[half:])
        assert np.array_equal(result.probabilities, expected.probabilities), (
            f"a {what} stream does not continue bit-equal"
        )
        _assert_same_state(_snapshot(stream), other, f"a {what} stream ends in another state")


def reset_restores(method: Method, task: Task, features: Array) -> None:
    """After `reset` the stream gives what a new one gives."""
    stream = _warm(method, task, features)
    stream.reset()
    expected = method.start(task).run(features)
    assert np.array_equal(stream.run(features).probabilities, expected.probabilities), "reset leaves something behind"


def inputs_are_left_alone(method: Method, task: Task, features: Array) -> None:
    """The caller's arrays are neither changed nor kept: changing them later changes nothing."""
    mine = features.copy()
    stream = method.start(task)
    first = stream.run(mine)
    kept = first.probabilities.copy()
    assert np.array_equal(mine, features), "run changed its input"
    before = _snapshot(stream)
    single = mine[0].copy()
    stream.predict(single)
    mine[...] = 0
    single[...] = 0
    _assert_same_state(before, stream, "the state keeps a reference to its input")
    stream.run(features)
    assert np.array_equal(first.probabilities, kept), "an earlier result changed when the stream continued"


def memory_is_bounded(method: Method, task: Task, features: Array) -> None:
    """However long the stream, what it keeps takes as many bytes as before, in its arrays and outside them."""
    stream = method.start(task)
    start = sum(array.nbytes for array in stream.arrays().values())
    stream.run(features)
    stream.step(features[0])  # so that the last block, which is held, has the same size
    before = _bytes_held(stream)
    for _ in range(2):
        stream.run(features)
    stream.step(features[0])
    assert sum(array.nbytes for array in stream.arrays().values()) == start, "the state grew with the stream"
    grown = _bytes_held(stream) - before
    assert grown < len(features), f"the stream holds {grown} bytes more than before, outside of `arrays()`"


def classes_may_be_permuted(method: Method, task: Task, features: Array) -> None:
    """Naming the classes in another order gives the same prediction in that order."""
    order = np.random.default_rng(1).permutation(task.classes)
    tower = None if task.text_tower is None else _Reordered(task.text_tower, order)
    other = Task([task.class_names[c] for c in order], task.text_prototypes[order], task.logit_scale, tower)
    expected = method.start(task).run(features).probabilities[:, order]
    found = method.start(other).run(features).probabilities
    assert np.abs(found - expected).max() <= 10 * SAME, "the order of the classes matters"


def other_precisions_are_accepted(method: Method, task: Task, features: Array) -> None:
    """float64 features give the float32 result; float16 features are taken."""
    expected = method.start(task).run(features).probabilities
    found = method.start(task).run(features.astype(np.float64)).probabilities
    assert np.abs(found - expected).max() <= SAME, "float64 features give another result"
    half = method.start(task).run(features.astype(np.float16)).probabilities
    assert np.isfinite(half).all(), "float16 features give a result that is not finite"


def bad_inputs_are_refused(method: Method, task: Task, features: Array) -> None:
    """NaN, infinity, zero vectors and wrong shapes are refused with a sentence, and nothing is written."""
    stream = _warm(method, task, features)
    before = _snapshot(stream)
    for what, bad in _bad_inputs(features).items():
        for verb, given in ((stream.run, bad), (stream.step, bad[-1]), (stream.predict, bad[-1])):
            try:
                verb(given)
            except TrimtabError:
                pass
            else:
                raise AssertionError(f"{what} was accepted by {verb.__name__}")
            _assert_same_state(before, stream, f"{what} changed the state although it was refused")


CHECKS: tuple[Check, ...] = (
    step_equals_run,
    predictions_are_distributions,
    predict_foretells_step,
    guards_leave_no_trace,
    save_and_load_continue,
    reset_restores,
    inputs_are_left_alone,
    memory_is_bounded,
    classes_may_be_permuted,
    other_precisions_are_accepted,
    bad_inputs_are_refused,
)


class _Reordered:
    """A text tower with its classes in another order."""

    def __init__(self, tower: TextTower, order: NDArray[np.int64]) -> None:
        self._tower, self._order = tower, order
        self.start = self._taken(tower.start, order)
        self.fingerprint = f"{tower.fingerprint} {order.tolist()}"
        self.operations = tower.operations

    def features(self, context: Array) -> Array:
        return self._tower.features(self._taken(context, np.argsort(self._order)))[self._order]

    def pullback(self, context: Array, slopes: Array) -> Array:
        back = np.argsort(self._order)
        return self._taken(self._tower.pullback(self._taken(context, back), slopes[back]), self._order)

    @staticmethod
    def _taken(context: Array, order: NDArray[np.int64]) -> Array:
        """A context is in the order of the classes only where each has its own."""
        return context[order] if context.ndim == 3 else context


def _bad_inputs(features: Array) -> dict[str, Array]:
    """Streams whose last image is bad, so that the good ones before it must not be written either."""
    bad: dict[str, Array] = {}
    for what, value in (("NaN", np.nan), ("infinity", np.inf), ("a zero vector", 0)):
        bad[what] = features[-3:].copy()
        bad[what][-1, -1] = value
    bad["a wrong dimension"] = features[-3:, :, :-1]
    bad["no view"] = features[-3:, :0]
    bad["too many axes"] = features[-3:, :, :, None, None]
    return bad


def _bytes_held(stream: Stream) -> int:
    """The size of everything that the stream and its method hold, whether it is saved or not."""
    found: dict[int, int] = {}
    waiting: list[Any] = [stream]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, NOT_HELD) or id(thing) in found:
            continue
        found[id(thing)] = sys.getsizeof(thing)
        waiting += gc.get_referents(thing)
    return sum(found.values())


def _warm(method: Method, task: Task, features: Array) -> Stream:
    stream = method.start(task)
    stream.run(features[: len(features) // 2])
    return stream


def _learned(stream: Stream) -> dict[str, bytes]:
    """What the method and the fusion have learned; a guard counts every image."""
    return {n: a.tobytes() for n, a in stream.arrays().items() if n != "seen" and not n.startswith("guard.")}


def _snapshot(stream: Stream) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in stream.arrays().items()}


def _assert_same_state(before: dict[str, bytes], stream: Stream, message: str) -> None:
    for name, array in stream.arrays().items():
        assert array.tobytes() == before[name], f"{message} ({name})"


def _assert_close(expected: Predictions, found: Predictions, message: str) -> None:
    for name, part in expected.parts.items():
        assert np.abs(part - found.parts[name]).max() <= SAME, f"{message} in {name}"
    assert np.abs(expected.probabilities - found.probabilities).max() <= SAME, message


def _stack(predictions: Iterator[Prediction]) -> Predictions:
    every = list(predictions)
    parts = {name: np.stack([p.parts[name] for p in every]) for name in every[0].parts}
    return Predictions(parts, np.stack([p.probabilities for p in every]), np.array([p.label for p in every]))
