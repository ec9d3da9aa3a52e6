"""`trimtab generate`: pictures drawn by a diffusion pipeline that was saved and loaded as a user's."""

import io
import json
import shutil
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from tiny_encoder import COLORS, ColorEncoder, colored
from trimtab import FeatureStore, TrimtabError
from trimtab.cli.main import app
from trimtab.data.folder import image_folder
from trimtab.data.generate import SETTINGS, generate_variations, seed_of

diffusers = pytest.importorskip("diffusers")

from tiny_pipelines import SIDE, save_text_pipeline, save_variation_pipeline  # noqa: E402
from trimtab.encoders.diffusion import Drawing, VariationPipeline  # noqa: E402

NAMES = tuple(COLORS)[:2]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_variation_pipeline(tmp_path_factory.mktemp("pipelines") / "variation")


@pytest.fixture(scope="module")
def loaded(saved):
    return VariationPipeline(saved, Drawing(steps=2))


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    for number, name in enumerate(NAMES):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.fromarray(colored(name, seed=number)).save(tmp_path / "photos" / name / f"p_{number}.png")
    return tmp_path / "photos"


def trimtab(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_command_draws_what_encode_reads(photos, saved, tmp_path, monkeypatch):
    done = trimtab("generate", photos, "-p", saved, "-o", "drawn", "--views", 2, "--steps", 2, "--seed", 7)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "4 pictures of photos, drawn with the seed 7 by StableDiffusionImageVariationPipeline" in done.stdout
    files = contents(tmp_path / "drawn")
    expected = {f"{name}/p_{number}_{i}.png" for number, name in enumerate(NAMES) for i in range(2)}
    assert set(files) == expected | {SETTINGS}
    assert len(set(files.values())) == 5
    noted = json.loads(files[SETTINGS])
    assert (noted["seed"], noted["guidance"], noted["steps"]) == (7, 3.0, 2)
    monkeypatch.setattr("trimtab.encoders.load_encoder", lambda name, **_: ColorEncoder())
    options = ("--views", 3, "--generated", "drawn", "--generated-views", 2, "-o", "store")
    assert trimtab("encode", photos, *options).exit_code == 0
    assert FeatureStore.open("store").views == 5


def test_a_picture_is_the_one_that_diffusers_draws_with_its_seed(photos, saved, loaded, tmp_path):
    generate_variations(image_folder(photos), loaded, tmp_path / "drawn", views=1, seed=3)
    identity = f"{NAMES[0]}/p_0.png"
    own = diffusers.StableDiffusionImageVariationPipeline.from_pretrained(saved)
    noise = torch.Generator().manual_seed(seed_of(3, identity, 0))
    with Image.open(photos / identity) as image:
        (expected,) = own(image, num_inference_steps=2, guidance_scale=3.0, generator=noise).images
    with Image.open(tmp_path / "drawn" / NAMES[0] / "p_0_0.png") as found:
        assert found.size == (SIDE, SIDE)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


class Stopped:
    """A pipeline that is interrupted at a drawing, once."""

    def __init__(self, inner, at):
        self.inner, self.at, self.drawings = inner, at, 0
        self.drawing, self.kind, self.fingerprint = inner.drawing, inner.kind, inner.fingerprint

    def draw(self, image, seed):
        self.drawings += 1
        if self.drawings == self.at:
            raise KeyboardInterrupt
        return self.inner.draw(image, seed)


def test_an_interrupted_run_draws_only_what_is_missing(photos, loaded, tmp_path):
    images = image_folder(photos)
    told = []
    whole = generate_variations(images, loaded, "whole", views=3, progress=lambda *done: told.append(done))
    assert (whole.drawn, whole.there_before, told) == (6, 0, [(n, 6) for n in range(1, 7)])
    stopped = Stopped(loaded, at=5)
    with pytest.raises(KeyboardInterrupt):
        generate_variations(images, stopped, "stopped", views=3)
    assert len(contents(tmp_path / "stopped")) == 4 + 1  # and no lock, no half of a file
    (tmp_path / "stopped" / NAMES[1] / ".p_1_1.png.1.part").write_bytes(b"of a killed run")
    again = generate_variations(images, stopped, "stopped", views=3)
    assert (again.drawn, again.there_before, stopped.drawings) == (2, 4, 7)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    more = generate_variations(images, loaded, "whole", views=4)
    assert (more.drawn, more.there_before) == (2, 6)


def test_what_the_safety_checker_blacks_out_is_no_view(photos, tmp_path):
    save_variation_pipeline(tmp_path / "careful", blacks_out=True)
    done = trimtab("generate", photos, "-p", "careful", "-o", "drawn", "--views", 1, "--steps", 1)
    assert done.exit_code == 1
    assert "p_0_0.png was blacked out by the pipeline's own safety checker" in done.stderr.replace("\n", " ")
    assert set(contents(tmp_path / "drawn")) == {SETTINGS}


def test_an_image_that_cannot_be_read_is_left_out_and_named(photos, saved, tmp_path):
    (photos / NAMES[0] / "torn.png").write_bytes(b"not an image")
    done = trimtab("generate", photos, "-p", saved, "-o", "drawn", "--views", 1, "--steps", 1, "--ext", "jpg")
    assert done.exit_code == 1
    assert "torn.png is not an image" in done.stderr
    drawn = contents(tmp_path / "drawn")
    assert set(drawn) == {f"{NAMES[0]}/p_0_0.jpg", f"{NAMES[1]}/p_1_0.jpg", SETTINGS}
    assert Image.open(io.BytesIO(drawn[f"{NAMES[0]}/p_0_0.jpg"])).format == "JPEG"


def test_stable_diffusion_from_words_is_turned_to_images(photos, tmp_path):
    save_text_pipeline(tmp_path / "words")
    image = colored(NAMES[0], seed=0)
    bare, near = (VariationPipeline("words", Drawing(steps=4, strength=strength)) for strength in (None, 0.25))
    assert bare.kind == "StableDiffusionImg2ImgPipeline"
    by_words = VariationPipeline("words", Drawing(steps=4, strength=0.25, words="a photo of a cat"))
    drawn = [pipeline.draw(image, seed=1) for pipeline in (bare, near, by_words)]
    assert drawn[0].shape == (SIDE, SIDE, 3)
    assert not np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[1], drawn[2])


def test_another_way_of_drawing_is_refused_in_the_same_folder(photos, saved, loaded, tmp_path):
    images = image_folder(photos)
    generate_variations(images, loaded, "drawn", views=1)
    before = contents(tmp_path / "drawn")
    with pytest.raises(TrimtabError, match="variations with seed 0, not 1; draw into another folder"):
        generate_variations(images, loaded, "drawn", views=1, seed=1)
    with pytest.raises(TrimtabError, match="variations with steps 2, not 3"):
        generate_variations(images, VariationPipeline(saved, Drawing(steps=3)), "drawn", views=1)
    changed = shutil.copytree(saved, tmp_path / "changed")
    settings = changed / "scheduler" / "scheduler_config.json"
    settings.write_text(settings.read_text().replace('"beta_end": 0.02', '"beta_end": 0.03'))
    with pytest.raises(TrimtabError, match="variations with pipeline fingerprint"):
        generate_variations(images, VariationPipeline(changed, Drawing(steps=2)), "drawn", views=1)
    assert contents(tmp_path / "drawn") == before
    (tmp_path / "drawn" / SETTINGS).write_text("{")
    with pytest.raises(TrimtabError, match=r"variations\.json is damaged"):
        generate_variations(images, loaded, "drawn", views=1)
    with pytest.raises(TrimtabError, match="holds files that trimtab did not draw"):
        generate_variations(images, loaded, photos, views=1)


def test_images_whose_pictures_would_share_names_are_refused(photos, loaded):
    shutil.copy(photos / NAMES[0] / "p_0.png", photos / NAMES[0] / "p_0.bmp")
    with pytest.raises(TrimtabError, match="would have the same names; rename one of them"):
        generate_variations(image_folder(photos), loaded, "drawn", views=1)


def test_folders_that_are_no_pipeline_are_one_sentence(photos, saved, tmp_path):
    with pytest.raises(TrimtabError, match="There is no folder nowhere"):
        VariationPipeline("nowhere")
    with pytest.raises(TrimtabError, match=r"photos is not a diffusion pipeline: it has no model_index\.json"):
        VariationPipeline(photos)
    with pytest.raises(TrimtabError, match="draws from the image alone; leave out a strength"):
        VariationPipeline(saved, Drawing(strength=0.5))
    torn = shutil.copytree(saved, tmp_path / "torn")
    weights = torn / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(TrimtabError, match=r"diffusion_pytorch_model\.safetensors is damaged or incomplete"):
        VariationPipeline(torn)
    weights.unlink()
    with pytest.raises(TrimtabError, match="No pipeline that varies images could be made of"):
        VariationPipeline(torn)
    save_text_pipeline(tmp_path / "mask", diffusers.StableDiffusionInpaintPipeline)
    with pytest.raises(TrimtabError, match="which needs a mask"):
        VariationPipeline("mask")


def test_pixels_that_are_no_numbers_are_refused(saved, tmp_path):
    broken = VariationPipeline(saved, Drawing(steps=1))
    broken._pipeline.vae.decoder.conv_out.weight.data.fill_(torch.nan)
    with pytest.raises(TrimtabError, match="drew pixels that are no numbers"):
        broken.draw(colored(NAMES[0], seed=0), seed=0)


def test_without_the_extra_it_is_named(photos, saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffusers", None)
    monkeypatch.delitem(sys.modules, "trimtab.encoders.diffusion")
    done = trimtab("generate", photos, "-p", saved)
    assert "Drawing pictures needs diffusers; run: pip install 'trimtab[generate]'" in str(done.exception)
