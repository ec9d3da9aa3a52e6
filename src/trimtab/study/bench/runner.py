"""Runs one run of a plan: one pass of the stream, then a record for each way of weighing the prediction's parts."""

import hashlib
import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import trimtab
from trimtab.engine.arrays import Array
from trimtab.errors import TrimtabError
from trimtab.features import FeatureStore
from trimtab.methods import make_method
from trimtab.methods.base import Method
from trimtab.stream import Predictions, Stream
from trimtab.study import metrics
from trimtab.study.bench.dependencies import code_fingerprint
from trimtab.study.bench.measures import STEPS, forget_peak_memory, peak_memory_mb, state_mb, step_times
from trimtab.study.bench.plan import BASELINE, Run
from trimtab.study.bench.predicting import LazyRows, OrderedRows, Overheard, rows_in_order, weigh, with_fixed_weights
from trimtab.study.bench.record import FAILED, SCORES, About, Cost, Record, packed
from trimtab.study.bench.rows import views_title
from trimtab.study.costs import gflops_on
from trimtab.task import Task

if TYPE_CHECKING:
    from trimtab.study.bench.by_pixels import PixelRows

WARM_UP = 3  # images that a throw-away stream sees first, so that compiling is not timed


def execute(run: Run) -> list[Record]:
    """Run it; a method that fails gives records that say so, and the benchmark continues."""
    store = FeatureStore.open(run.store)
    if store.fingerprint != run.fingerprint:
        raise TrimtabError(f"{run.store} has changed since the benchmark was planned; run the same command again.")
    if run.views is not None and run.views > store.views:
        raise TrimtabError(
            f"{run.store} has {views_title(store.views)} of each image, fewer than the {run.views} asked for."
        )
    method = with_fixed_weights(make_method(run.method, **run.parameters))
    changed = [name for name, content in method.contents().items() if run.contents.get(name) != content]
    if changed:
        raise TrimtabError(
            f"{run.parameters[changed[0]]} has changed since the benchmark was planned; run the same command again."
        )
    rows = rows_in_order(store, run.order, run.seed, run.views, run.view_budget)
    abouts = {weights: _about(run, store, method, len(rows), weights) for weights in run.weights}
    try:
        if "pixels" in method.needs:
            from trimtab.study.bench.by_pixels import prepare

            return _measured(run, *prepare(run, store, method), method, abouts)
        task = store.task(method.needs)
        with _one_thread_of_torch(task):
            return _measured(run, task, rows, method, abouts)
    except Exception as error:
        return [_failed(about, method, error) for about in abouts.values()]


@contextmanager
def _one_thread_of_torch(task: Task) -> Iterator[None]:
    """Costs are those of one thread; torch, which comes with a text tower, would take all cores."""
    if task.text_tower is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _measured(
    run: Run, task: Task, rows: "OrderedRows | PixelRows", method: Method, abouts: dict[str, About]
) -> list[Record]:
    method.start(task).run(rows[0:WARM_UP])
    forget_peak_memory()
    stream = method.start(task)
    stream.fusion = overheard = Overheard(stream.fusion)
    predictions, seconds = _timed(run, stream, rows)
    compactness = _compactness(rows) if run.method == BASELINE and isinstance(rows, OrderedRows) else None
    gflops, of_text = gflops_on(method, task, rows.shape[1])
    records = []
    for weights, about in abouts.items():
        start = time.perf_counter()
        try:
            fused, values = weigh(weights, method, task, predictions, rows.labels, overheard.sure(len(rows)))
            weighing = time.perf_counter() - start if weights == "auto" else 0.0
            scores = _scores(fused, rows.labels)
        except Exception as error:  # the other ways of weighing are still good
            records.append(_failed(about, method, error))
            continue
        cost = Cost(
            seconds=round(seconds + weighing, 4),
            images_per_second=round(len(rows) / (seconds + weighing), 1),
            step_ms={},
            peak_memory_mb=round(peak_memory_mb(), 1),
            state_mb=round(state_mb(stream), 3),
            gflops_per_image=gflops,
            text_encoder_gflops=of_text,
            views_per_image=rows.views_per_image if isinstance(rows, LazyRows) else None,
        )
        records.append(_scored(about, method, scores, values, cost, compactness))
    # Timed last: these steps write into the caches.
    waits = step_times(stream, rows, steps=STEPS if isinstance(rows, OrderedRows) else WARM_UP)
    for record in records:
        if record.cost is not None:
            record.cost.step_ms.update(waits)
    return records


def _timed(run: Run, stream: Stream, rows: "OrderedRows | PixelRows") -> tuple[Predictions, float]:
    """The predictions, and the seconds that they took."""
    if isinstance(rows, OrderedRows):
        start = time.perf_counter()
        predictions = stream.run(rows, keep_parts=run.weights != ("fixed",))
        return predictions, time.perf_counter() - start
    from trimtab.study.bench.by_pixels import run_resumable

    return run_resumable(run, stream, rows, code_fingerprint(type(stream.method)))


def _compactness(rows: OrderedRows) -> float | None:
    """Of the plain views; None where every class is a single point."""
    try:
        return metrics.compactness(rows[:][:, 0], rows.labels)
    except TrimtabError:
        return None


def _scores(fused: Array, labels: NDArray[np.int64]) -> metrics.Scores:
    """How good the predictions are; NaN among them is a failure, not a figure."""
    scores = metrics.score(fused, labels)
    if not (np.isfinite(scores.nll) and np.isfinite(scores.brier)):
        raise TrimtabError("some of its probabilities are not finite numbers")
    return scores


def _scored(
    about: About,
    method: Method,
    scores: metrics.Scores,
    values: dict[str, float],
    cost: Cost,
    compactness: float | None,
) -> Record:
    seen, so_far = metrics.accuracy_along(scores.correct)
    return Record(
        about=about,
        weight_values=values,
        scores={name: float(getattr(scores, name)) for name in SCORES},
        recall=scores.recall.tolist(),
        reliability={
            "confidence": scores.reliability.confidence.tolist(),
            "accuracy": scores.reliability.accuracy.tolist(),
            "count": scores.reliability.count.tolist(),
        },
        along={"images": seen.tolist(), "accuracy": so_far.round(5).tolist()},
        correct=packed(scores.correct),
        labeled=len(scores.correct),
        compactness=compactness,
        cost=cost,
        **_circumstances(method),
    )


def _failed(about: About, method: Method, error: Exception) -> Record:
    reason = str(error) if isinstance(error, TrimtabError) else f"{type(error).__name__}: {error}"
    return Record(about, FAILED, reason, **_circumstances(method))


def _about(run: Run, store: FeatureStore, method: Method, images: int, weights: str) -> About:
    parameters = method.parameters() | ({"fusion": "auto"} if weights == "auto" else {})
    return About(
        dataset=run.dataset,
        store=run.store,
        store_fingerprint=run.fingerprint,
        task_fingerprint=store.task().fingerprint,  # without what a method brings: rows of a table share it
        encoder=store.info.encoder,
        prompts=store.info.prompts,
        class_names=list(store.class_names),
        images=images,
        views=run.views or store.views,
        dim=store.dim,
        method=run.method,
        variant=run.variant,
        parameters=_as_json_has_it(parameters),
        order=run.order,
        seed=run.seed,
        weights=weights,
        tuned_on=run.tuned_on,
        images_fingerprint=_images_fingerprint(store),
    )


def _images_fingerprint(store: FeatureStore) -> str:
    """Which images these are, and what an order may depend on; encoder, views and prompts do not matter."""
    said = [store.ids, store.labels.tolist(), store.domains]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _as_json_has_it(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in parameters.items()}


def _circumstances(method: Method) -> dict[str, Any]:
    return {
        "versions": {
            "trimtab": trimtab.__version__,
            "code": code_fingerprint(type(method)),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": str(os.cpu_count())},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
