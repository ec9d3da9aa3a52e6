"""TPT and its relatives (and CoOp's steps): the authors' programs on a tiny CLIP, autograd, the contract, wrong use."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.prompt_golden import agreement_of, episodic
from trimtab import CTPT, RTPT, TPT, DiffTPT, PromptAlign, Task, TrimtabError, make_method
from trimtab.checks import classes_may_be_permuted, random_stream
from trimtab.engine.adamw import AdamW
from trimtab.engine.operations import transformer_pass
from trimtab.methods.ctpt import dispersion
from trimtab.methods.difftpt import most_similar
from trimtab.methods.prompt_tuning import PromptTuner, marginal_entropy, most_confident
from trimtab.methods.rtpt import reliability
from trimtab.study.costs import gflops_on, gflops_per_image

# MaPLe and PromptAlign have a test of their own (test_maple_golden.py).
OTHERS = ("maple", "promptalign")
GOLDEN = [
    file
    for file in sorted((Path(__file__).parent / "golden" / "prompt").glob("*.npz"))
    if not file.name.startswith(OTHERS)
]


def stream(*, classes=5, views=12, images=8):
    """A task with a toy text tower, and features around it."""
    return random_stream(classes, 16, views, images, 4, needs={"text_tower"})


METHODS = [
    TPT(),
    TPT(steps=3, view_fraction=0.3, learning_rate=0.05),
    CTPT(),
    CTPT(two_step=True, steps=2),
    RTPT(),
    RTPT(neighbors=3, temperature=0.1, view_fraction=0.5),
    DiffTPT(),
]


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_every_step_is_the_authors(file):
    found = agreement_of(file)
    assert {agreement.quantity for agreement in found} >= {"features", "logits", "losses", "gradients", "parameters"}
    assert [agreement for agreement in found if not agreement.holds] == []


@pytest.mark.parametrize(
    ("file", "changed", "noticed"),
    [
        ("tpt_vit_v16", {"view_fraction": 0.5}, {"views", "gradients"}),
        ("tpt_vit_v16", {"learning_rate": 0.004}, {"parameters", "answers"}),
        ("ctpt_vit_v32", {"dispersion_weight": 10.0}, {"gradients"}),
        ("rtpt_vit_v32", {"neighbors": 19}, {"answers"}),
        ("difftpt_vit_v32", {"cosine_fraction": 0.5}, {"views"}),
    ],
)
def test_the_comparison_notices_another_method(file, changed, noticed, monkeypatch):
    def other(name, **parameters):
        return make_method(name, **{**parameters, **changed})

    monkeypatch.setattr(episodic, "make_method", other)
    found = agreement_of(Path(__file__).parent / "golden" / "prompt" / f"{file}.npz")
    assert noticed <= {agreement.quantity for agreement in found if not agreement.holds}


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_adamw_is_torchs(decay):
    random = np.random.default_rng(0)
    start = random.normal(size=(4, 8)).astype(np.float32)
    parameter = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    theirs, ours, moved = (
        torch.optim.AdamW([parameter], lr=5e-3, weight_decay=decay),
        AdamW(5e-3, weight_decay=decay),
        start,
    )
    for scale in (1.0, 1e-3, 1e-9, 10.0):
        gradient = scale * random.normal(size=(4, 8))
        gradient[0] = 0
        parameter.grad = torch.tensor(gradient)
        theirs.step()
        moved = ours.step(moved, gradient)
        np.testing.assert_allclose(moved, parameter.detach(), atol=1e-6)


def test_the_slopes_of_every_loss_equal_autograd():
    random = np.random.default_rng(1)
    logits, text = 3 * random.normal(size=(5, 7)).astype(np.float32), random.normal(size=(7, 9)).astype(np.float32)
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    probabilities = leaf.softmax(dim=1)
    for method, expected in (
        (TPT(), torch.special.entr(probabilities.mean(dim=0)).sum()),
        (RTPT(), torch.special.entr(probabilities).sum(dim=1).mean()),
    ):
        value, slopes = method.view_loss(logits)
        assert value == pytest.approx(float(expected.detach()), abs=1e-6)
        (gradient,) = torch.autograd.grad(expected, leaf, retain_graph=True)
        np.testing.assert_allclose(slopes, gradient, atol=1e-7)
    leaf = torch.tensor(text, dtype=torch.float64, requires_grad=True)
    expected = (leaf - leaf.mean(dim=0)).norm(dim=1).mean()
    value, slopes = dispersion(text)
    assert value == pytest.approx(float(expected.detach()), abs=1e-6)
    np.testing.assert_allclose(slopes, torch.autograd.grad(expected, leaf)[0], atol=1e-7)


def test_a_tuned_prompt_lowers_the_loss_that_it_is_tuned_for():
    task, features = stream(classes=7, images=20)
    method = TPT(steps=6, view_fraction=0.5)
    state = method.new_state(task)
    for views in features:
        losses = [step.loss for step in method.tuning(views, task, state)]
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_every_class_may_have_a_context_of_its_own(method):
    task, features = stream(classes=7, views=30, images=20)
    tower = task.text_tower
    expected = method.start(task).run(features).probabilities
    tower.start = np.ascontiguousarray(np.broadcast_to(tower.start, (7, *tower.start.shape)))
    own = method.start(Task(task.class_names, task.text_prototypes, task.logit_scale, tower)).run(features)
    assert not np.allclose(own.probabilities, expected, atol=1e-3)  # each class goes its own way
    classes_may_be_permuted(method, task, features)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_image_does_not_change_the_next_one(method):
    task, features = stream()
    forward = method.start(task).run(features).probabilities
    backward = method.start(task).run(features[::-1]).probabilities
    np.testing.assert_array_equal(forward, backward[::-1])


def test_a_task_without_a_tower_is_refused_before_any_image():
    task, _ = random_stream(classes=5, dim=16, views=1, images=1, seed=4)
    for method in METHODS:
        assert method.needs == {"text_tower"}
        with pytest.raises(TrimtabError, match=f"{method.name} tunes the prompt .* no text tower"):
            method.start(task)


def test_a_tower_of_other_classes_is_refused():
    (task, _), (other, _) = stream(), stream(classes=4)
    mixed = Task(task.class_names, task.text_prototypes, task.logit_scale, other.text_tower)
    with pytest.raises(TrimtabError, match=r"shape \(4, 16\), but its text prototypes have \(5, 16\)"):
        TPT().start(mixed)


def test_views_are_counted_as_released_but_never_none():
    logits = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    assert len(most_confident(logits, 0.29)) == int(100 * 0.29) == 28  # 0.29 * 100 is 28.999...
    assert len(most_confident(logits[:5], 0.1)) == 1
    assert list(most_similar(logits[:1], 0.8)) == [0]
    assert len(most_similar(logits[:32], 0.8)) == 25
    assert most_similar(logits[:32], 0.8)[0] == 0


def test_reliability_leaves_out_each_view_itself():
    cosines = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.6], [0.4, 0.6, 1.0]], np.float32)
    np.testing.assert_allclose(reliability(cosines, 1), [0.4, 0.6, 0.6])
    np.testing.assert_allclose(reliability(cosines, 20), [0.3, 0.4, 0.5], atol=1e-7)
    assert reliability(cosines[:1, :1], 20) == [1]


def test_certain_views_give_finite_slopes():
    logits = np.array([[1000.0, 0, 0], [1000.0, 0, 0]], np.float32)
    for method in METHODS:
        value, slopes = method.view_loss(logits)
        assert value == 0
        assert not slopes.any()


@dataclass(frozen=True, kw_only=True)
class Orthogonal(PromptTuner):
    """O-TPT's idea in four lines: |T T' - I|^2, whose slope is 4 (T T' - I) T."""

    name = "orthogonal"

    def text_loss(self, text):
        excess = text @ text.T - np.eye(len(text), dtype=np.float32)
        return 10.0 * float((excess**2).sum()), 40.0 * (excess @ text)


def test_a_relative_needs_only_its_loss_of_the_text():
    task, features = stream(images=5)
    method = Orthogonal(steps=5, learning_rate=0.02)
    state = method.new_state(task)
    for views in features:
        first, *_, last = method.tuning(views, task, state)
        assert method.text_loss(last.text)[0] < method.text_loss(first.text)[0]
    assert method.start(task).run(features).probabilities.shape == (5, 5)


def test_the_text_towers_share_is_counted():
    plain = gflops_per_image(make_method("tps"), classes=1000, dim=512, views=64)
    # A sentence of 77 tokens through CLIP's text tower: 12 blocks, 512 wide, 2048 inside.
    size = {"classes": 1000, "dim": 512, "views": 64, "text_pass": 1000 * transformer_pass(77, 12, 512, 2048)}
    tuned = gflops_per_image(TPT(), **size)
    # That takes 5.8 to 6 GFLOPs: forward, back, and forward again.
    assert 3 * 5800 < tuned - plain < 3 * 6000
    assert gflops_per_image(CTPT(two_step=True), **size) == pytest.approx(5 / 3 * tuned, rel=0.01)
    for method in (TPT(), RTPT(), PromptAlign()):
        assert gflops_per_image(method, classes=1000, dim=512, views=64) is None  # of what encoder?


def test_a_tower_is_counted_by_its_own_size():
    task, _ = stream()
    whole, of_text = gflops_on(TPT(), task, views=4)
    assert of_text == pytest.approx(3 * task.text_tower.operations / 1e9)
    assert whole - of_text == pytest.approx(2 * 4 * task.classes * task.dim / 1e9)
    assert gflops_on(make_method("tps"), task, views=4)[1] == 0  # the tower is there, but nothing goes through it


def test_the_loss_of_a_step_is_that_of_its_text():
    task, features = stream(images=1)
    method = TPT(view_fraction=0.5)
    (step,) = method.tuning(features[0], task, method.new_state(task))
    kept = most_confident(20 * features[0] @ step.text.T, 0.5)
    assert step.loss == pytest.approx(marginal_entropy(20 * features[0][kept] @ step.text.T), abs=1e-6)
