"""PromptAlign: pixels in, prompts tuned for one image, everything put back; and the statistics that it needs."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from typer.testing import CliRunner  # noqa: E402

import tiny_clips  # noqa: E402
from maple_files import COLORS, save_clip, save_images, save_prompts  # noqa: E402
from trimtab import Classifier, PromptAlign, Task, ZeroShot, checks, load_encoder, make_method  # noqa: E402
from trimtab.cli.main import app  # noqa: E402
from trimtab.data.catalog import load_dataset  # noqa: E402
from trimtab.encoders.maple import towers as towers_module  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402
from trimtab.learn import source_statistics  # noqa: E402
from trimtab.learn.source_statistics import fit_source_stats  # noqa: E402
from trimtab.source_stats import SourceStats  # noqa: E402

NAMES = ["cat", "dog", "photo"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An encoder with prompts, images, and the statistics that belong to them."""
    folder = tmp_path_factory.mktemp("promptalign")
    name = save_prompts(folder / "prompts.safetensors", f"openai:{save_clip(folder)}")
    images = load_dataset(f"folder:{save_images(folder / 'images', each=4)}")
    encoder = load_encoder(name)
    fit_source_stats(images, encoder, folder / "stats.safetensors", blocks=2)
    return folder, name, encoder, images


@pytest.fixture
def method(made):
    return PromptAlign(source_stats=str(made[0] / "stats.safetensors"), learning_rate=0.01, entropy_fraction=0.5)


@pytest.fixture
def task(made):
    encoder = made[2]
    text = encoder.encode_texts([f"a photo of a {name}." for name in NAMES])
    return Task(NAMES, text, encoder.logit_scale, image_prompts=encoder.image_prompts(NAMES))


def some_views(images=4, views=6):
    pixels = tiny_clips.some_pixels(images * views).astype(np.int64)
    tint = np.array(list(COLORS.values()))[np.arange(images) % 3]
    mixed = pixels.reshape(images, views, 32, 32, 3) // 2 + tint[:, None, None, None] // 2
    return mixed.astype(np.uint8)


APPLICABLE = (
    checks.step_equals_run,
    checks.predictions_are_distributions,
    checks.predict_foretells_step,
    checks.save_and_load_continue,
    checks.reset_restores,
    checks.inputs_are_left_alone,
)


@pytest.mark.parametrize("check", APPLICABLE, ids=lambda check: check.__name__)
@pytest.mark.parametrize("views", [1, 5])
def test_contract(method, task, check, views):
    check(method, task, some_views(6, views))


def test_no_step_is_zero_shot_and_a_step_is_not(made, method, task):
    views = some_views()
    still = replace(method, steps=0).start(task).run(views)
    features = np.stack([made[2].encode_images(image) for image in views])
    plain = ZeroShot().start(task).run(features)
    np.testing.assert_allclose(still.probabilities, plain.probabilities, atol=1e-4)
    moved = method.start(task).run(views)
    assert np.abs(moved.probabilities - still.probabilities).max() > 1e-3


def test_images_do_not_see_each_other(method, task):
    views = some_views()
    together = method.start(task).run(views).probabilities
    alone = [method.start(task).step(image).probabilities for image in views[::-1]]
    np.testing.assert_array_equal(together, alone[::-1])


def test_without_weight_the_statistics_do_not_matter(made, method, task, tmp_path):
    loaded = SourceStats.load(method.source_stats)
    (tmp_path / "shifted.safetensors").write_bytes(replace(loaded, mean=loaded.mean + 1).content())
    views, shifted = some_views(2), str(tmp_path / "shifted.safetensors")
    for weight, same in ((0.0, True), (100.0, False)):
        answers = [
            replace(method, align_weight=weight, source_stats=file).start(task).run(views).probabilities
            for file in (method.source_stats, shifted)
        ]
        assert np.array_equal(*answers) == same


def test_prompt_places_can_be_left_out(method, task):
    views = some_views(2)
    released, robust = (
        replace(method, prompt_tokens=kept).start(task).run(views).probabilities for kept in (True, False)
    )
    assert not np.array_equal(released, robust)


def test_little_memory_changes_nothing(method, task, monkeypatch):
    views = some_views(2)
    whole = method.start(task).run(views).probabilities
    monkeypatch.setattr(towers_module, "ACTIVATION_BYTES", 1)
    # Adam divides by the size of a gradient, so rounding shows where gradients are nearly zero.
    np.testing.assert_allclose(method.start(task).run(views).probabilities, whole, atol=2e-3)


def test_a_classifier_brings_the_pixels(made, method):
    classifier = Classifier(made[2], NAMES, method=method, views=4)
    guesses = classifier.classify(tiny_clips.some_pixels(1, side=50)[0])
    assert {guess["label"] for guess in guesses} == set(NAMES)
    assert classifier.seen == 1


def test_classify_takes_it_from_the_shell(made, tmp_path):
    folder, name, *_ = made
    out, stats = tmp_path / "out.csv", f"promptalign.source_stats={folder / 'stats.safetensors'}"
    pictures = sorted((folder / "images").rglob("*.png"))[:2]
    options = (
        "-e",
        name,
        "-m",
        "promptalign",
        "--labels",
        ",".join(NAMES),
        "--views",
        "3",
        "-f",
        "csv",
        "-o",
        str(out),
    )
    done = CliRunner().invoke(app, ["classify", *map(str, pictures), *options, "--set", stats])
    assert done.exit_code == 0, done.exception
    assert len(out.read_text().splitlines()) == 3
    bare = CliRunner().invoke(app, ["classify", *map(str, pictures), *options[:-1], str(tmp_path / "other.csv")])
    assert "promptalign needs the statistics of its source data" in str(bare.exception)
    wrong = CliRunner().invoke(
        app, ["classify", str(pictures[0]), "--labels", "a,b", "--set", "mcp.order=x", "-m", "tda"]
    )
    assert "--set gives a parameter of 'mcp', but the method is 'tda'" in str(wrong.exception)


def test_other_encoders_are_refused(made, method):
    with pytest.raises(TrimtabError, match=r"promptalign tunes prompts inside the towers, but openai:.* has none"):
        Classifier(made[1].partition("+")[2], NAMES, method=method)


def test_features_are_refused(method, task):
    with pytest.raises(TrimtabError, match=r"needs pixels, .* a feature store does not hold them"):
        method.start(task).run(np.zeros((4, 2, task.dim), np.float32))
    plain = Task(NAMES, task.text_prototypes, task.logit_scale)
    with pytest.raises(TrimtabError, match="needs images and an encoder maple:<file>"):
        method.start(plain)


@pytest.mark.parametrize("bad", [np.zeros((3, 2, 30, 30, 3), np.uint8), np.zeros((3, 2, 32, 32, 3), np.float32)])
def test_other_pixels_are_refused(method, task, bad):
    stream = method.start(task)
    for verb, given in ((stream.run, bad), (stream.step, bad[0]), (stream.predict, bad[0])):
        with pytest.raises(TrimtabError, match=r"RGB bytes of the shape \(views, 32, 32, 3\)"):
            verb(given)
    assert stream.seen == 0


def test_the_task_knows_the_prompts(made, task):
    plain = Task(NAMES, task.text_prototypes, task.logit_scale)
    assert plain.fingerprint != task.fingerprint


def test_statistics_are_named_when_they_are_missing(task):
    with pytest.raises(TrimtabError, match="make them with `trimtab source-stats"):
        make_method("promptalign").start(task)
    with pytest.raises(TrimtabError, match="There is no file of source statistics nowhere"):
        make_method("promptalign", source_stats="nowhere").start(task)


def test_statistics_of_others_are_refused(made, method, task, tmp_path):
    loaded = SourceStats.load(method.source_stats)
    for change, what in (({"backbone": "x"}, "another backbone"), ({"prompts": "x"}, "other prompts")):
        (tmp_path / "other.safetensors").write_bytes(replace(loaded, **change).content())
        with pytest.raises(TrimtabError, match=f"were made with {what}; make them with this encoder"):
            replace(method, source_stats=str(tmp_path / "other.safetensors")).start(task)
    few = replace(loaded, mean=loaded.mean[:1], variance=loaded.variance[:1])
    (tmp_path / "few.safetensors").write_bytes(few.content())
    with pytest.raises(TrimtabError, match=r"covers 1 of the 2 blocks that the alignment uses; .* --blocks 2"):
        replace(method, source_stats=str(tmp_path / "few.safetensors")).start(task)


def test_damaged_statistics_are_refused(method, tmp_path):
    file = tmp_path / "s.safetensors"
    loaded = SourceStats.load(method.source_stats)
    file.write_bytes(replace(loaded, mean=loaded.mean * np.float32(np.nan)).content())
    with pytest.raises(TrimtabError, match="holds NaN or infinity"):
        SourceStats.load(file)
    file.write_bytes(b"nothing")
    with pytest.raises(TrimtabError, match="is not a safetensors file or is damaged"):
        SourceStats.load(file)
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2)}, file)
    with pytest.raises(TrimtabError, match="does not hold source statistics"):
        SourceStats.load(file)


def test_the_blocks_must_be_in_order():
    with pytest.raises(TrimtabError, match=r"last_block must be above first_block \(3\), not 2"):
        PromptAlign(first_block=3, last_block=2)


def test_statistics_are_those_of_all_images(made):
    _, _, encoder, images = made
    from trimtab.images.views import make_views

    pixels = np.stack([make_views(images.load(i), 32, 1, 0)[0] for i in range(len(images))])
    with torch.no_grad():
        scaled = encoder.image_tower.scaled(torch.from_numpy(pixels))
        tokens = encoder.towers.entering_tokens(scaled, encoder.learner().vision, 2).double().numpy()
    found = SourceStats.load(made[0] / "stats.safetensors")
    assert (found.images, found.data, found.blocks) == (12, "images", 2)
    np.testing.assert_allclose(found.mean, tokens.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.variance, tokens.var(axis=0), atol=1e-6)


def test_an_interrupted_measurement_continues(made, tmp_path, monkeypatch):
    _, _, encoder, images = made
    monkeypatch.setattr(source_statistics, "SECONDS_BETWEEN_SAVES", -1.0)
    out = tmp_path / "stats.safetensors"
    seen = []

    def stop_after_two(done, total):
        seen.append(done)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_source_stats(images, encoder, out, blocks=2, batch=3, progress=stop_after_two)
    assert not out.exists()
    with pytest.raises(TrimtabError, match="is from a run with another encoder or other images"):
        fit_source_stats(images, encoder, out, blocks=1, batch=3)
    again = []
    fit_source_stats(images, encoder, out, blocks=2, batch=3, progress=lambda done, total: again.append(done))
    assert again == [9, 12]
    expected = SourceStats.load(made[0] / "stats.safetensors")
    np.testing.assert_allclose(SourceStats.load(out).mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(SourceStats.load(out).variance, expected.variance, atol=1e-6)
    assert list(tmp_path.iterdir()) == [out]


def test_the_command(made, tmp_path):
    folder, name, _, _ = made
    out = tmp_path / "stats.safetensors"
    done = CliRunner().invoke(
        app, ["source-stats", str(folder / "images"), "-e", name, "-o", str(out), "--blocks", "1", "--limit", "5"]
    )
    assert done.exit_code == 0, done.output
    assert "5 images of images, the first 1 of the blocks of maple:" in done.stdout
    assert SourceStats.load(out).blocks == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Say which prompts the statistics are for"),
        (["-e", "{base}"], "Source statistics are of an encoder maple:"),
        (["-e", "{name}", "--blocks", "9"], "--blocks must be from 1 to 2"),
    ],
)
def test_wrong_use_of_the_command(made, options, message):
    folder, name, _, _ = made
    given = [option.format(name=name, base=name.partition("+")[2]) for option in options]
    error = CliRunner().invoke(app, ["source-stats", str(folder / "images"), *given]).exception
    assert isinstance(error, TrimtabError)
    assert message in str(error)
