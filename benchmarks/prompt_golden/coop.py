"""CoOp against its golden files: step by step, and the answers before and after."""

from collections.abc import Iterator

from benchmarks.prompt_golden.files import Agreement, Golden, Tolerances, largest, relative
from benchmarks.prompt_golden.tiny_clip import image_features
from benchmarks.prompt_golden.towers import model_and_tower, start_error
from trimtab.learn import CoOp, learn_coop


def coop(golden: Golden) -> Iterator[Agreement]:
    """Generic and class-specific contexts, at every position."""
    model, tower = model_and_tower(golden, str(golden["class_token_position"]))
    yield Agreement("parameters", start_error(golden), 0)
    fair = Tolerances(several_steps=True, resnet='"resnet"' in str(golden["clip_config"]))
    text, scale = tower.features(tower.start), float(golden["logit_scale"])
    yield Agreement("features", largest(text, golden["text_features0"]), fair.features)
    tested = image_features(model, golden["test_pixels"])
    yield Agreement("logits", largest(scale * tested @ text.T, golden["test_logits_before"]), fair.logits)
    recipe = CoOp(
        epochs=int(golden["max_epoch"]),
        learning_rate=float(golden["base_lr"]),
        warmup_rate=float(golden["warmup_lr"]),
        momentum=float(golden["momentum"]),
        weight_decay=float(golden["weight_decay"]),
    )
    steps = learn_coop(
        recipe,
        tower,
        image_features(model, golden["train_pixels"]),
        golden["train_labels"],
        scale,
        batches=lambda epoch: list(golden["batches"][epoch]),
    )
    for number, found in enumerate(steps):
        yield Agreement("rates", abs(found.rate - float(golden["lrs"][number])), 1e-12)
        yield Agreement("losses", abs(found.loss - float(golden["loss"][number])), fair.losses)
        yield Agreement("gradients", relative(found.gradient, golden["ctx_grad"][number]), fair.gradients)
        yield Agreement("parameters", largest(found.context, golden["ctx_after"][number]), fair.parameters)
    yield Agreement("steps", abs(number + 1 - len(golden["lrs"])), 0)
    answers = scale * tested @ tower.features(found.context).T
    yield Agreement("answers", largest(answers, golden["test_logits_after"]), fair.answers)
