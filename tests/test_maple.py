"""`maple:<file>+<encoder>`: prompts in both towers, from our files and from the authors'."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import tiny_clips  # noqa: E402
from maple_files import save_clip, save_images, save_prompts, some_learner  # noqa: E402
from trimtab import Classifier, FeatureStore, load_encoder, make_method  # noqa: E402
from trimtab.data.catalog import load_dataset  # noqa: E402
from trimtab.encoders.base import Encoder  # noqa: E402
from trimtab.encoders.maple import towers as towers_module  # noqa: E402
from trimtab.encoders.maple.prompt_files import write_prompts  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402
from trimtab.features.encode import encode_images  # noqa: E402

TEXTS = ["a photo of a cat.", "a photo of a dog cat."]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return f"openai:{save_clip(tmp_path_factory.mktemp('clip'))}"


@pytest.fixture
def name(tmp_path, base):
    return save_prompts(tmp_path / "prompts.safetensors", base)


def test_is_an_encoder_of_its_own(name, base):
    encoder, plain = load_encoder(name), load_encoder(base)
    assert isinstance(encoder, Encoder)
    assert (encoder.dim, encoder.input_size, encoder.logit_scale) == (plain.dim, 32, plain.logit_scale)
    pixels = tiny_clips.some_pixels()
    for features, other in (
        (encoder.encode_images(pixels), plain.encode_images(pixels)),
        (encoder.encode_texts(TEXTS), plain.encode_texts(TEXTS)),
    ):
        np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
        assert np.abs(features - other).max() > 1e-3
    assert encoder.fingerprint == load_encoder(name).fingerprint


def test_other_prompts_have_another_fingerprint(tmp_path, name, base):
    other = save_prompts(tmp_path / "other.safetensors", base, seed=4)
    assert load_encoder(other).fingerprint != load_encoder(name).fingerprint


def test_a_text_does_not_depend_on_its_neighbors(name):
    encoder = load_encoder(name)
    together = encoder.encode_texts([*TEXTS, "a photo of a photo of of of cat dog."])
    np.testing.assert_allclose(together[:2], encoder.encode_texts(TEXTS), atol=1e-6)


def test_a_text_must_begin_with_the_words_that_are_replaced(name):
    with pytest.raises(
        TrimtabError, match=r"must begin with these words, unlike 'a cat\.'; use the template 'a photo of"
    ):
        load_encoder(name).encode_texts(["a cat."])


def test_transformers_gives_the_same_as_openai(tmp_path, base, name):
    torch.manual_seed(0)
    model = tiny_clips.randomize(transformers.CLIPModel(tiny_clips.clip_config()))
    folder = tmp_path / "hf"
    folder.mkdir()
    model.save_pretrained(folder)
    tiny_clips.write_clip_tokenizer(folder)
    tiny_clips.write_image_settings(folder, **tiny_clips.CLIP_IMAGES)
    file = tmp_path / "for-hf.safetensors"
    same = load_encoder(name)
    write_prompts(file, same.learner, {"backbone": load_encoder(f"hf:{folder}").fingerprint})
    encoder = load_encoder(f"maple:{file}+hf:{folder}")
    pixels = tiny_clips.some_pixels()
    np.testing.assert_allclose(encoder.encode_images(pixels), same.encode_images(pixels), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), same.encode_texts(TEXTS), atol=1e-5)


def test_widths_may_differ(tmp_path):
    base = f"openai:{save_clip(tmp_path / 'wide', width=128)}"
    encoder = load_encoder(save_prompts(tmp_path / "p.safetensors", base))
    assert encoder.towers.widths == (64, 128)
    assert encoder.encode_images(tiny_clips.some_pixels()).shape == (3, 24)


def released_checkpoint(file, learner, *, clip=None):
    """As the authors' program saves it: half precision, class names of other data, the backbone, training objects."""
    state = {f"prompt_learner.{name}": values.detach().half() for name, values in learner.state_dict().items()}
    state["prompt_learner.token_prefix"] = torch.zeros(1000, 1, 64)
    state["prompt_learner.token_suffix"] = torch.zeros(1000, 74, 64)
    if clip is not None:
        state["image_encoder.class_embedding"] = clip.visual.class_embedding.detach().half()
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    torch.save({"state_dict": state, "epoch": 2, "optimizer": optimizer.state_dict(), "scheduler": schedule}, file)


def test_released_checkpoints_are_read_without_running_anything(tmp_path, base, name):
    ours = load_encoder(name)
    file = tmp_path / "model.pth.tar-2"
    released_checkpoint(file, ours.learner, clip=ours.towers.clip)
    encoder = load_encoder(f"maple:{file}+{base}")
    assert encoder.learner.ctx.dtype == torch.float32
    for key, values in ours.learner.state_dict().items():
        torch.testing.assert_close(encoder.learner.state_dict()[key], values.half().float(), atol=0, rtol=0)
    pixels = tiny_clips.some_pixels()
    np.testing.assert_allclose(encoder.encode_images(pixels), ours.encode_images(pixels), atol=1e-2)


class Evil:
    def __reduce__(self):
        return (open, ("stolen", "w"))


def test_a_checkpoint_cannot_run_code(tmp_path, base, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = {f"prompt_learner.{n}": v for n, v in load_encoder(name).learner.state_dict().items()}
    torch.save({"state_dict": state, "optimizer": Evil()}, "evil.pth")
    load_encoder(f"maple:evil.pth+{base}")
    assert not (tmp_path / "stolen").exists()


def test_prompts_of_another_backbone_are_refused(tmp_path, base, name):
    other = f"openai:{save_clip(tmp_path / 'other', seed=1)}"
    with pytest.raises(TrimtabError, match=r"prompts.safetensors were learned for another backbone than openai:"):
        load_encoder(name.replace(base, other))
    released_checkpoint(tmp_path / "m.pth", load_encoder(name).learner, clip=load_encoder(name).towers.clip)
    with pytest.raises(TrimtabError, match=r"m.pth were learned for another backbone than openai:"):
        load_encoder(f"maple:{tmp_path / 'm.pth'}+{other}")


def test_prompts_of_other_widths_or_too_deep_are_refused(tmp_path, base, name):
    wide = f"openai:{save_clip(tmp_path / 'wide', width=128)}"
    with pytest.raises(TrimtabError, match=r"width 64 \(text\) and 64 \(images\), the encoder's are 64 and 128"):
        load_encoder(name.replace(base, wide))
    deep = tmp_path / "deep.safetensors"
    write_prompts(deep, some_learner(load_encoder(base), depth=3), {"backbone": load_encoder(base).fingerprint})
    with pytest.raises(TrimtabError, match="prompts of depth 3 do not fit into 2 blocks"):
        load_encoder(f"maple:{deep}+{base}")


def resnet(folder):
    """A ResNet without its image tower's weights would do, but a real one is what users have."""
    from benchmarks.prompt_golden.tiny_clip import tiny_weights

    config = {
        "seed": 1,
        "kind": "resnet",
        "image_size": 32,
        "patch": 0,
        "vision_width": 8,
        "vision_layers": [1, 1, 1, 1],
    }
    config |= {"text_width": 64, "text_layers": 1, "embed_dim": 16, "logit_scale": 100.0, "context_length": 77}
    config |= {"vocab_size": 521, "gain": 1.0, "token_scale": 0.05, "position_scale": 0.02}
    weights = {key: torch.from_numpy(value) for key, value in tiny_weights(config).items()}
    counters = {k.replace("running_var", "num_batches_tracked"): torch.tensor(0) for k in weights if "running_var" in k}
    folder.mkdir()
    torch.save(weights | counters, folder / "rn.pt")
    tiny_clips.write_merges(folder)
    return f"openai:{folder / 'rn.pt'}"


def test_a_resnet_is_refused(tmp_path, name, base):
    other = resnet(tmp_path / "rn")
    with pytest.raises(TrimtabError, match="is a ResNet, which has no tokens for MaPLe's deep prompts; use a ViT"):
        load_encoder(name.replace(base, other))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("maple:x.safetensors", "must name the prompts and their encoder"),
        ("maple:x.safetensors+{base}", r"There is no file of prompts x\.safetensors"),
        ("maple:{junk}.pth+{base}", "is not a checkpoint that torch can read"),
        ("maple:{junk}.safetensors+{base}", "is not a file of prompts that can be read"),
        ("maple:{clip}+{base}", "does not hold MaPLe's prompts: it has no proj.weight"),
    ],
)
def test_wrong_files_are_refused_with_a_sentence(tmp_path, base, wrong, message):
    junk = tmp_path / "junk"
    for suffix in (".pth", ".safetensors"):
        junk.with_suffix(suffix).write_bytes(b"not a checkpoint")
    with pytest.raises(TrimtabError, match=message):
        load_encoder(wrong.format(base=base, junk=junk, clip=base.partition(":")[2]))


def test_only_full_precision(name):
    with pytest.raises(TrimtabError, match="MaPLe's prompts are computed in float32"):
        load_encoder(name, precision="fp16")


def test_an_encoder_without_torch_towers_is_refused(tmp_path, base, name):
    from tiny_encoder import ColorEncoder
    from trimtab.encoders.maple.backbone import openai_towers

    with pytest.raises(TrimtabError, match="colors is not a CLIP in torch"):
        openai_towers(ColorEncoder())


def test_a_name_that_is_too_long_is_refused(name):
    with pytest.raises(TrimtabError, match="too long a name for a text of 77 tokens"):
        load_encoder(name).image_prompts(["cat", "of " * 80])


def test_pieces_within_the_memory_limit_change_nothing(name, monkeypatch):
    encoder = load_encoder(name)
    learner, towers = encoder.learner.requires_grad_(True), encoder.towers
    tokens = torch.from_numpy(encoder.class_tokens(["cat", "dog", "photo", "of cat", "a dog"]))
    pixels = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def gradients():
        learner.zero_grad()
        prompts = learner()
        seen = towers.images(pixels, prompts.vision, watched=2)
        logits = seen.features @ towers.text_features(tokens, prompts.text).T
        (logits.exp().mean() + seen.tokens.var(dim=0).mean()).backward()
        return logits.detach(), {key: values.grad.clone() for key, values in learner.named_parameters()}

    whole = gradients()
    monkeypatch.setattr(towers_module, "ACTIVATION_BYTES", 1)
    pieces = gradients()
    torch.testing.assert_close(pieces[0], whole[0], atol=1e-5, rtol=1e-5)
    for key, gradient in whole[1].items():
        torch.testing.assert_close(pieces[1][key], gradient, atol=1e-5, rtol=1e-4)


def test_stores_and_cache_methods_stand_on_it(tmp_path, name):
    images = load_dataset(f"folder:{save_images(tmp_path / 'images')}")
    encoder = load_encoder(name)
    encode_images(images, encoder, out=tmp_path / "store", views=2)
    store = FeatureStore.open(tmp_path / "store")
    assert store.info.prompts.startswith("a photo of a {}., 2 x 2 learned vectors (MaPLe), trained on labels of ")
    assert store.info.encoder_fingerprint == encoder.fingerprint
    predictions = make_method("mcp").start(store.task()).run(store.features)
    assert predictions.probabilities.shape == (9, 3)


def test_a_classifier_takes_it_by_name(name):
    guesses = Classifier(name, ["cat", "dog"], method="zero_shot").classify(tiny_clips.some_pixels(1)[0])
    assert {guess["label"] for guess in guesses} == {"cat", "dog"}
