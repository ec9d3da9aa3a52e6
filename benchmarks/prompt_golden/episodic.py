"""TPT, C-TPT, R-TPT and DiffTPT against their golden files: image by image, step by step."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.prompt_golden.files import Agreement, Golden, Tolerances, largest, relative
from benchmarks.prompt_golden.tiny_clip import image_features
from benchmarks.prompt_golden.towers import model_and_tower, start_error
from trimtab import Task, make_method
from trimtab.engine.equations import entropy, softmax
from trimtab.methods.ctpt import dispersion
from trimtab.methods.difftpt import most_similar
from trimtab.methods.prompt_tuning import PromptTuner
from trimtab.methods.rtpt import reliability


def tpt(golden: Golden) -> Iterator[Agreement]:
    """TPT's files."""
    yield from _episodes(golden, _method("tpt", golden, view_fraction="selection_p"), "logits_after")


def ctpt(golden: Golden) -> Iterator[Agreement]:
    """C-TPT's files: also the dispersion at every step of the optimizer."""
    method = _method("ctpt", golden, view_fraction="selection_p", dispersion_weight="lam")
    method = replace(method, two_step=bool(golden["two_step"]))
    yield from _episodes(golden, method, "logits_after")


def rtpt(golden: Golden) -> Iterator[Agreement]:
    """R-TPT's files; the answer is the one with the diagonal masked, since the released one depends on the last bit."""
    method = _method("rtpt", golden, view_fraction="selection_p")
    yield from _episodes(golden, method, "logits_after_diagmask")
    for cosines, expected in zip(golden["similarity"], golden["reliability_diagmask"], strict=True):
        yield Agreement("reliability", largest(reliability(cosines, 20), expected), Tolerances.features)


def difftpt(golden: Golden) -> Iterator[Agreement]:
    """DiffTPT's files: also what the first filter keeps."""
    method = _method("difftpt", golden, view_fraction="selection_entropy", cosine_fraction="selection_cosine")
    yield from _episodes(golden, method, "logits_after")
    for logits, expected in zip(golden["logits_before"], golden["kept_by_cosine"], strict=True):
        kept = most_similar(logits, float(golden["selection_cosine"]))[1:]
        yield Agreement("views", float(set(kept) != set(expected)), 0)


def _method(name: str, golden: Golden, **fields: str) -> Any:
    parameters = {parameter: float(golden[field]) for parameter, field in fields.items()}
    return make_method(name, learning_rate=float(golden["lr"]), steps=int(golden["tta_steps"]), **parameters)


def _episodes(golden: Golden, method: PromptTuner, answers: str) -> Iterator[Agreement]:
    model, tower = model_and_tower(golden)
    text = tower.features(tower.start)
    yield Agreement("parameters", start_error(golden), 0)
    fair = Tolerances(several_steps=golden["ctx_grad"].shape[1] > 1, resnet='"resnet"' in str(golden["clip_config"]))
    yield Agreement("features", largest(text, golden["text_features0"]), fair.features)
    task = Task(golden["class_names"], text, float(golden["logit_scale"]), tower)
    stream, scale = method.start(task), np.float32(task.logit_scale)
    features = image_features(model, golden["pixels"])
    for number, views in enumerate(features):
        logits = scale * (views @ text.T)
        yield Agreement("logits", largest(logits, golden["logits_before"][number]), fair.logits)
        yield Agreement("losses", largest(entropy(softmax(logits)), golden["entropy"][number]), fair.losses)
        chosen = method.chosen(logits)
        yield Agreement("views", float(set(chosen) != set(golden["selected"][number])), 0)
        for step, found in enumerate(method.tuning(views, task, stream.state)):
            if step % len(method.stages()) == 0:  # C-TPT's second stage has no entropy of its own
                loss, _ = method.view_loss(scale * (views[chosen] @ found.text.T))
                expected = golden["loss_entropy"][number, step // len(method.stages())]
                yield Agreement("losses", abs(loss - float(expected)), fair.losses)
            if "atfd" in golden:
                error = abs(dispersion(found.text)[0] - float(golden["atfd"][number, step]))
                yield Agreement("losses", error, fair.losses)
            yield Agreement("gradients", relative(found.gradient, golden["ctx_grad"][number, step]), fair.gradients)
            yield Agreement("parameters", largest(found.context, golden["ctx_after"][number, step]), fair.parameters)
        yield Agreement("steps", abs(step + 1 - golden["ctx_grad"].shape[1]), 0)
        image = next(iter(method.look(task, views[None], number)))
        answer = method.logits(image, stream.state)
        yield Agreement("answers", largest(answer, golden[answers][number]), fair.answers)
        # The way that users take: what a stream says is the softmax of the same answer.
        predicted = stream.step(views).probabilities
        yield Agreement("predictions", largest(predicted, softmax(golden[answers][number])), fair.answers)
