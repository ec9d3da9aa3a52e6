"""`trimtab bench` on methods that need pixels: the images behind a store, and runs that survive a stop."""

import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from maple_files import save_clip, save_images, save_prompts  # noqa: E402
from trimtab import FeatureStore, load_encoder  # noqa: E402
from trimtab.data.catalog import load_dataset  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402
from trimtab.features.encode import encode_images  # noqa: E402
from trimtab.learn.source_statistics import fit_source_stats  # noqa: E402
from trimtab.methods.promptalign import PromptAlign  # noqa: E402
from trimtab.source_stats import SourceStats  # noqa: E402
from trimtab.study import bench  # noqa: E402
from trimtab.study.bench import by_pixels  # noqa: E402


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pixels")
    name = save_prompts(folder / "prompts.safetensors", f"openai:{save_clip(folder)}")
    images = load_dataset(f"folder:{save_images(folder / 'pictures', each=4)}")
    encoder = load_encoder(name)
    fit_source_stats(images, encoder, folder / "stats.safetensors", blocks=2)
    encode_images(images, encoder, out=folder / "store", views=3)
    return folder


def plan_of(made, **options):
    given = {"promptalign": {"source_stats": str(made / "stats.safetensors"), "learning_rate": 0.01}}
    options = {"seeds": 1, "images": [str(made / "pictures")], "parameters": given, **options}
    return bench.make_plan([made / "store"], ["promptalign"], **options)


def run_of(plan):
    return next(run for run in plan.runs if run.method == "promptalign")


def test_a_store_runs_where_its_images_are_given(made, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    plan = plan_of(made)
    records = bench.run_plan(plan, tmp_path / "results", workers=1)
    ours = next(record for record in records if record.about.method == "promptalign")
    assert ours.ok, ours.reason
    assert (ours.about.images, ours.about.views, ours.labeled) == (12, 3, 12)
    assert ours.cost.images_per_second > 0
    prompts = load_encoder(FeatureStore.open(made / "store").info.encoder).image_prompts(ours.about.class_names)
    passes = 4 * (
        prompts.image_operations + prompts.text_operations
    )  # a view and all texts: three for the step, one after
    assert ours.cost.gflops_per_image == pytest.approx(passes / 1e9, rel=0.01)
    assert ours.cost.text_encoder_gflops == pytest.approx(4 * prompts.text_operations / 1e9)
    assert list((tmp_path / "cache" / "bench").iterdir()) == []


def test_the_pixels_are_those_that_were_encoded(made):
    store = FeatureStore.open(made / "store")
    encoder = load_encoder(store.info.encoder)
    rows = by_pixels.PixelRows(load_dataset(str(made / "pictures")), store, np.array([5, 0, 7]), None, 32)
    assert rows.shape == (3, 3, 32, 32, 3)
    features = np.stack([encoder.encode_images(views) for views in rows[0:3]])
    np.testing.assert_allclose(features, store.rows(np.array([5, 0, 7])).astype(np.float32), atol=1e-3)
    assert rows[3:9].shape == (0, 3, 32, 32, 3)


def test_all_leaves_out_what_needs_pixels(made):
    assert "promptalign" not in {run.method for run in bench.make_plan([made / "store"], ["all"], seeds=1).runs}


def test_without_images_it_is_refused(made):
    with pytest.raises(TrimtabError, match=r"promptalign needs pixels, which .*store does not hold; say where the"):
        plan_of(made, images=[])


def test_other_images_are_a_failed_run(made, tmp_path):
    save_images(tmp_path / "others" / "pictures", each=2)
    (record,) = bench.execute(run_of(plan_of(made, images=[str(tmp_path / "others" / "pictures")])))
    assert not record.ok
    assert "pictures does not hold the image" in record.reason


def test_a_stopped_run_continues(made, tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    run = run_of(plan_of(made))
    (whole,) = bench.execute(run)
    answered = []
    logits = PromptAlign.logits

    def stop_at_the_sixth(self, image, state):
        answered.append(image.position)
        if image.position == 5 and len(answered) > 3:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of a step, which is still finished
        return logits(self, image, state)

    monkeypatch.setattr(PromptAlign, "logits", stop_at_the_sixth)
    with pytest.raises(KeyboardInterrupt):
        bench.execute(run)
    answered.clear()
    (continued,) = bench.execute(run)
    assert answered[:3] == [0, 1, 2]  # the images that warm up
    assert answered[3:9] == [6, 7, 8, 9, 10, 11]
    assert continued.correct == whole.correct
    assert continued.scores == whole.scores


def test_records_know_the_source_statistics_by_what_they_hold(made, tmp_path):
    def plan_with(file):
        return run_of(plan_of(made, parameters={"promptalign": {"source_stats": str(file), "learning_rate": 0.01}}))

    before, elsewhere = plan_with(made / "stats.safetensors"), tmp_path / "moved.safetensors"
    shutil.copy(made / "stats.safetensors", elsewhere)
    moved = plan_with(elsewhere)
    assert moved.files == before.files
    assert str(tmp_path) not in moved.variant
    statistics = SourceStats.load(elsewhere)
    elsewhere.write_bytes(replace(statistics, mean=statistics.mean + 1).content())
    changed = plan_with(elsewhere)
    assert changed.files != before.files
    assert changed.variant != before.variant
    with pytest.raises(TrimtabError, match="has changed since the benchmark was planned"):
        bench.execute(moved)
    with pytest.raises(TrimtabError, match="There is no file of source statistics"):
        plan_with(tmp_path / "missing.safetensors")


def test_a_pass_is_counted_as_torch_counts_it(made):
    prompts = load_encoder(FeatureStore.open(made / "store").info.encoder).image_prompts(["cat", "dog", "photo"])
    filled = torch.nn.functional.pad(prompts._tokens, (0, 77 - prompts._tokens.shape[1]))
    # Torch counts attention only where it is made of plain products.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as text:
        prompts._towers._text(filled, prompts._start().text)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as image:
        prompts._towers.images(torch.zeros(1, 3, 32, 32), prompts._start().vision)
    assert prompts.text_operations == pytest.approx(text.get_total_flops(), rel=0.01)
    assert prompts.image_operations == pytest.approx(image.get_total_flops(), rel=0.02)
