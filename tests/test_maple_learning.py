"""`trimtab learn maple`: prompts from a few labeled images, continued bit for bit after an interruption."""

import signal
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from typer.testing import CliRunner  # noqa: E402

from maple_files import save_clip, save_images  # noqa: E402
from trimtab import load_encoder  # noqa: E402
from trimtab.cli.main import app  # noqa: E402
from trimtab.data.base import UNLABELED  # noqa: E402
from trimtab.data.catalog import load_dataset  # noqa: E402
from trimtab.encoders.maple.prompt_files import read_prompts  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402
from trimtab.learn import maple  # noqa: E402
from trimtab.learn.maple import MapleSettings, learn_maple  # noqa: E402

SETTINGS = MapleSettings(shots=3, depth=2, epochs=3, rate=0.01, batch=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learning")
    base = f"openai:{save_clip(folder)}"
    return base, load_encoder(base), load_dataset(f"folder:{save_images(folder / 'images', each=4)}")


def prompts_in(file):
    return {name: values.numpy() for name, values in read_prompts(file).learner.state_dict().items()}


def test_the_loss_falls_and_the_file_is_an_encoder(made, tmp_path):
    base, encoder, images = made
    losses = []
    longer = MapleSettings(shots=4, depth=2, epochs=12, rate=0.02, batch=4)
    out = tmp_path / "p.safetensors"
    learn_maple(images, encoder, out, longer, progress=lambda done, total, loss: losses.append(loss))
    assert len(losses) == 36
    assert np.mean(losses[-6:]) < 0.8 * np.mean(losses[:6])
    assert load_encoder(f"maple:{out}+{base}").learner.depth == 2
    assert list(tmp_path.iterdir()) == [out]


def test_an_interrupted_run_ends_with_the_same_bits(made, tmp_path, monkeypatch):
    _, encoder, images = made
    learn_maple(images, encoder, tmp_path / "whole.safetensors", SETTINGS)

    def stop(done, total, loss):
        if done == 4:
            raise KeyboardInterrupt

    out = tmp_path / "stopped.safetensors"
    with pytest.raises(KeyboardInterrupt):
        learn_maple(images, encoder, out, SETTINGS, progress=stop)
    assert not out.exists()
    steps = []
    learn_maple(images, encoder, out, SETTINGS, progress=lambda done, total, loss: steps.append(done))
    assert steps == [5, 6, 7, 8, 9]
    whole, continued = prompts_in(tmp_path / "whole.safetensors"), prompts_in(out)
    for name, values in whole.items():
        np.testing.assert_array_equal(continued[name], values)


def test_an_interrupt_within_a_step_waits_for_its_end(made, tmp_path, monkeypatch):
    _, encoder, images = made
    learn_maple(images, encoder, tmp_path / "whole.safetensors", SETTINGS)
    step, calls = torch.optim.SGD.step, iter(range(100))

    def interrupted(optimizer):
        with torch.no_grad():
            if next(calls) == 4:
                signal.raise_signal(signal.SIGINT)
        return step(optimizer)

    monkeypatch.setattr(torch.optim.SGD, "step", interrupted)
    out, steps = tmp_path / "stopped.safetensors", []
    with pytest.raises(KeyboardInterrupt):
        learn_maple(images, encoder, out, SETTINGS, progress=lambda done, total, loss: steps.append(done))
    assert steps == [1, 2, 3, 4, 5]
    learn_maple(images, encoder, out, SETTINGS)
    whole, continued = prompts_in(tmp_path / "whole.safetensors"), prompts_in(out)
    for name, values in whole.items():
        np.testing.assert_array_equal(continued[name], values)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["stopped.safetensors", "whole.safetensors"]


def test_a_changed_file_is_refused(made, tmp_path):
    _, encoder, images = made
    out = tmp_path / "p.safetensors"
    learn_maple(images, encoder, out, MapleSettings(shots=1, depth=1, epochs=1))
    whole = out.read_bytes()
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole.replace(b"1 per class", b"9 per class")):
        out.write_bytes(damaged)
        with pytest.raises(TrimtabError, match="changed or damaged since it was written"):
            read_prompts(out)
    out.rename(tmp_path / "q.safetensors.part")
    with pytest.raises(TrimtabError, match=r"changed or damaged .* Delete it to begin again\."):
        learn_maple(images, encoder, tmp_path / "q.safetensors", MapleSettings(shots=1, depth=1, epochs=1))


def test_a_killed_run_continues_from_the_last_save(made, tmp_path, monkeypatch):
    _, encoder, images = made
    monkeypatch.setattr(maple, "SECONDS_BETWEEN_SAVES", -1.0)

    def die(done, total, loss):
        if done == 3:
            raise RuntimeError("power cut")

    out = tmp_path / "p.safetensors"
    with pytest.raises(RuntimeError, match="power cut"):
        learn_maple(images, encoder, out, SETTINGS, progress=die)
    steps = []
    learn_maple(images, encoder, out, SETTINGS, progress=lambda done, total, loss: steps.append(done))
    assert steps[0] == 3


def test_another_run_is_not_mixed_in(made, tmp_path):
    _, encoder, images = made

    def stop(done, total, loss):
        raise KeyboardInterrupt

    out = tmp_path / "p.safetensors"
    with pytest.raises(KeyboardInterrupt):
        learn_maple(images, encoder, out, SETTINGS, progress=stop)
    other = MapleSettings(shots=2, depth=2, epochs=1)
    with pytest.raises(TrimtabError, match=r"p.safetensors.part is from a run with another encoder, other data or"):
        learn_maple(images, encoder, out, other)
    learn_maple(images, encoder, out, SETTINGS)
    content = out.read_bytes()
    learn_maple(images, encoder, out, SETTINGS)  # done already
    assert out.read_bytes() == content
    with pytest.raises(TrimtabError, match="exists and was not learned in this way"):
        learn_maple(images, encoder, out, other)


def test_nan_stops_the_training(made, tmp_path):
    _, encoder, images = made
    with pytest.raises(TrimtabError, match="learn with a smaller --rate"):
        learn_maple(images, encoder, tmp_path / "p.safetensors", MapleSettings(shots=3, depth=1, epochs=4, rate=1e30))
    assert not (tmp_path / "p.safetensors").exists()


def test_labels_are_needed(made, tmp_path):
    _, encoder, images = made
    unlabeled = replace(images, labels=np.full(len(images), UNLABELED))
    with pytest.raises(TrimtabError, match="images has no labels, and prompts are learned from labeled images"):
        learn_maple(unlabeled, encoder, tmp_path / "p.safetensors", SETTINGS)
    with pytest.raises(TrimtabError, match="The class 'cat' has 4 labeled images, but 5 shots per class are asked for"):
        learn_maple(images, encoder, tmp_path / "p.safetensors", replace(SETTINGS, shots=5))


def test_too_deep_prompts_are_refused(made, tmp_path):
    _, encoder, images = made
    with pytest.raises(TrimtabError, match="prompts of depth 9 do not fit into 2 blocks"):
        learn_maple(images, encoder, tmp_path / "p.safetensors", MapleSettings(shots=1, depth=9))


def test_the_command(made, tmp_path):
    base, _, images = made
    folder = images.load.paths[0].parent.parent
    out = tmp_path / "p.safetensors"
    given = ["learn", "maple", str(folder), "-e", base, "-o", str(out), "--shots", "2", "--depth", "2", "--epochs", "1"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert f"use maple:{out}+{base}" in done.stdout
    assert load_encoder(f"maple:{out}+{base}").learned_prompts.endswith("trained on labels of images (2 per class)")
