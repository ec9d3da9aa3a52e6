"""MaPLe and PromptAlign against their golden files: the authors' programs, run on a tiny CLIP."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.prompt_golden.files import Agreement, Golden, Tolerances, largest, relative
from benchmarks.prompt_golden.tiny_clip import tiny_clip
from trimtab.encoders.maple.learner import PromptLearner, learner_of, opening_words
from trimtab.encoders.maple.statistics import RunningStatistics
from trimtab.encoders.maple.towers import PromptedTowers
from trimtab.encoders.maple.tuning import PromptTuner, Step
from trimtab.encoders.openai.encoder import DEVIATION, MEAN
from trimtab.encoders.openai.tokenizer import clip_tokens
from trimtab.encoders.torch_encoder import ImageTower, PixelScale
from trimtab.image_prompts import Alignment
from trimtab.learn.maple_training import MapleTraining
from trimtab.learn.sgd import Schedule
from trimtab.prompts.names import words_of
from trimtab.source_stats import SourceStats

STATISTICS = 5e-5
# A first step of AdamW is lr * g / (|g| + 1e-8): where g is not a thousand times the 1e-8, its rounding decides.
SURE = 1e-5
SOURCE_BATCH = 7  # images; another number than the authors', on purpose


def maple(golden: Golden) -> Iterator[Agreement]:
    """MaPLe's files: both towers with the prompts, every step of training, and the logits before and after."""
    fair = Tolerances(several_steps=True, resnet=False)
    towers, learner, tokens = _start(golden)
    yield from _words(golden, towers)
    training = MapleTraining(
        towers,
        learner,
        tokens,
        float(golden["logit_scale"]),
        momentum=float(golden["momentum"]),
        weight_decay=float(golden["weight_decay"]),
    )
    test = _pixels(golden["test_pixels"])
    with torch.no_grad():
        prompts = learner()
        text, images = towers.text_features(tokens, prompts.text), towers.images(test, prompts.vision).features
        yield Agreement("features", largest(text, golden["text_features_before"]), fair.features)
        yield Agreement("features", largest(images, golden["image_features_before"]), fair.features)
        yield Agreement("logits", largest(training.logits(test), golden["test_logits_before"]), fair.logits)
    train, labels = _pixels(golden["train_pixels"]), torch.from_numpy(golden["train_labels"])
    schedule = Schedule(float(golden["base_lr"]), int(golden["max_epoch"]), float(golden["warmup_lr"]))
    step = 0
    for epoch, batches in enumerate(golden["batches"]):
        for batch in batches:
            yield Agreement("rates", abs(schedule.rate(epoch) - float(golden["lrs"][step])), 1e-12)
            loss = training.step(train[batch], labels[batch], schedule.rate(epoch))
            yield Agreement("losses", abs(loss - float(golden["loss"][step])), fair.losses)
            yield from _learned(golden, learner, (step,), fair, first=step == 0, last=step == len(golden["lrs"]) - 1)
            step += 1
    yield Agreement("steps", abs(step - len(golden["lrs"])), 0)
    with torch.no_grad():
        yield Agreement("answers", largest(training.logits(test), golden["test_logits_after"]), fair.answers)


def promptalign(golden: Golden) -> Iterator[Agreement]:
    """PromptAlign's files: source statistics, choice of views, every step of tuning, and the answer."""
    steps = int(golden["tta_steps"])
    fair = Tolerances(several_steps=steps > 1, resnet=False)
    towers, learner, tokens = _start(golden)
    source = _source(golden, towers)
    yield Agreement("statistics", largest(source.mean, golden["source_mean"]), STATISTICS)
    yield Agreement("statistics", largest(source.variance, golden["source_var"]), STATISTICS)
    rule = Alignment(
        steps=steps,
        learning_rate=float(golden["lr"]),
        entropy_fraction=float(golden["entropy_p"]),
        align_fraction=float(golden["align_p"]),
        align_weight=float(golden["align_weight"]),
        first_block=int(golden["align_from"]),
        last_block=int(golden["align_to"]),
        prompt_tokens=True,
    )
    tuner = PromptTuner(
        towers,
        learner,
        tokens,
        logit_scale=float(golden["logit_scale"]),
        image_tower=ImageTower(towers.visual, PixelScale.from_mean_and_deviation(MEAN, DEVIATION)),
        backbone="",
        prompts="",
    )
    divisor = rule.last_block - rule.first_block
    for number, views in enumerate(golden["pixels"]):
        pixels = _pixels(views)
        choice = tuner.choose(pixels, rule)
        yield Agreement("logits", largest(choice.logits, golden["logits_before"][number]), fair.logits)
        yield Agreement("losses", largest(choice.entropies, golden["entropy"][number]), fair.losses)
        for count, chosen in ((choice.for_entropy, "selected_entropy"), (choice.for_alignment, "selected_align")):
            yield Agreement("views", float(set(choice.order[:count].tolist()) != set(golden[chosen][number])), 0)
        if number == 0:
            selected = pixels[choice.order[: choice.for_alignment]]
            found = tuner.view_statistics(selected, len(golden["view_mean_image0"]))
            for values, name in zip(found, ("view_mean_image0", "view_var_image0"), strict=True):
                yield Agreement("statistics", largest(values, golden[name]), STATISTICS)
        done: list[Agreement] = []

        def on_step(step: Step, number: int = number, done: list[Agreement] = done) -> None:
            taken = sum(agreement.quantity == "steps" for agreement in done)
            at = (number, taken)
            total = step.entropy + step.alignment * rule.align_weight / divisor
            expected = {"loss_entropy": step.entropy, "loss_align_unweighted": step.alignment, "loss_total": total}
            for name, value in expected.items():
                done.append(Agreement("losses", abs(value - float(golden[name][at])), fair.losses))
            done.extend(
                _learned(golden, step.learner, at, fair, first=at == (0, 0), last=number == 0 and taken == steps - 1)
            )
            done.append(Agreement("steps", 0, 0))

        answer = tuner.tune(pixels, rule, source, on_step)
        yield from done
        yield Agreement("steps", abs(sum(a.quantity == "steps" for a in done) - steps), 0)
        yield Agreement("answers", largest(answer, golden["logits_after"][number]), fair.answers)


def _start(golden: Golden) -> tuple[PromptedTowers, PromptLearner, Tensor]:
    towers = PromptedTowers(tiny_clip(str(golden["clip_config"]), str(golden["clip_sha256"])))
    learner = learner_of(_parameters(golden, "start/"))
    towers.check(learner, "the golden file")
    return towers, learner, torch.from_numpy(golden["token_ids"].astype(np.int64))


def _words(golden: Golden, towers: PromptedTowers) -> Iterator[Agreement]:
    """The tokens that our own tokenizer makes of the names, and the embeddings that learning would begin with."""
    length, ids = int(golden["n_ctx"]), golden["token_ids"]
    tokenize = clip_tokens(Path(__file__).parent, towers.clip.token_embedding.num_embeddings, ids.shape[1])
    tokens, _ = tokenize([f"{opening_words(length)} {words_of(str(name))}." for name in golden["class_names"]])
    yield Agreement("tokens", largest(tokens, ids[:, : tokens.shape[1]]), 0)
    if "ctx_word_embeddings" in golden:
        words = towers.clip.token_embedding(torch.from_numpy(tokens[0, 1 : 1 + length])).detach()
        yield Agreement("parameters", largest(words, golden["ctx_word_embeddings"]), 0)


def _source(golden: Golden, towers: PromptedTowers) -> SourceStats:
    """The statistics of the file's source images under the file's source prompts, made with our code."""
    prompts = learner_of(_parameters(golden, "source_params/"))
    statistics = RunningStatistics()
    pixels = _pixels(golden["source_pixels"])
    with torch.no_grad():
        for batch in torch.split(pixels, SOURCE_BATCH):
            tokens = towers.entering_tokens(batch, prompts().vision, len(golden["source_mean"]))
            statistics.add(tokens.numpy())
    return SourceStats(statistics.mean32, statistics.variance32, "", "")


def _learned(
    golden: Golden, learner: PromptLearner, at: tuple[int, ...], fair: Tolerances, *, first: bool, last: bool
) -> Iterator[Agreement]:
    """Gradients and parameters of one step. Of the large ones the files hold the norms, one gradient and one result."""
    for name, values in learner.named_parameters():
        assert values.grad is not None
        gradient, after = values.grad.numpy(), values.detach().numpy()
        if f"grad/{name}" in golden:
            yield Agreement("gradients", relative(gradient, golden[f"grad/{name}"][at]), fair.gradients)
            yield Agreement("parameters", largest(after, golden[f"after/{name}"][at]), fair.parameters)
            continue
        expected = float(golden[f"grad_norm/{name}"][at])
        norm = float(np.linalg.norm(gradient.astype(np.float64)))
        yield Agreement("gradients", abs(norm - expected) / max(expected, 1e-30), fair.gradients)
        if first:
            whole = golden[_either(golden, f"grad_first/{name}", f"grad_image0/{name}")]
            yield Agreement("gradients", relative(gradient, whole), fair.gradients)
        if last:
            whole = golden[_either(golden, f"after_last/{name}", f"after_image0/{name}")]
            sure = np.abs(gradient) >= SURE
            yield Agreement("parameters", largest(after[sure], whole[sure]), fair.parameters)


def _either(golden: Golden, one: str, other: str) -> str:
    return one if one in golden else other


def _parameters(golden: Golden, prefix: str) -> Mapping[str, Tensor]:
    found = {name.removeprefix(prefix): value for name, value in golden.items() if name.startswith(prefix)}
    return {name: torch.from_numpy(value.astype(np.float32)) for name, value in found.items()}


def _pixels(pixels: Any) -> Tensor:
    return torch.from_numpy(pixels.astype(np.float32))
