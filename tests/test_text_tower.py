"""Text towers under contexts: equal to the plain path, to the authors' programs, and to the encoder itself."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.nn import functional  # noqa: E402

import tiny_clips  # noqa: E402
from benchmarks.field_style import text_tower as plain  # noqa: E402
from golden_clip import golden, write_golden_clip  # noqa: E402
from trimtab.encoders import load_encoder  # noqa: E402
from trimtab.encoders.prompted import text_tower  # noqa: E402
from trimtab.encoders.prompted import tower as towers  # noqa: E402
from trimtab.encoders.prompted.context_files import save_context  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402

NAMES = ("apple_pie", "cat", "golden retriever", "St. Bernard", "a b", "707-320", "forest", "Dr.", "a-b", "cat #2")
WORDS = "a photo of a"


@functools.cache
def openai_encoder():
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp())
    return load_encoder(f"openai:{write_golden_clip(golden('tpt_rn_v16'), folder)}")


@pytest.fixture(scope="module")
def hf_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hf") / "clip"
    tiny_clips.save_hf_clip(folder)
    return folder


def plain_inputs(encoder, names, length):
    """The token numbers of "X X ... name." as CoOp makes them, filled up to 77, and the lengths of the names."""
    words = [name.replace("_", " ").removesuffix(" #2") for name in names]
    ids, mask = encoder.tokenize([" ".join(["x"] * length) + f" {name}." for name in words])
    tokens = torch.zeros(len(names), 77, dtype=torch.int64)
    tokens[:, : ids.shape[1]] = torch.from_numpy(ids * mask)
    return tokens, [int(m.sum()) - 2 for m in encoder.tokenize(words)[1]]


def assert_equals_plain_path(encoder, tower, names, context, position, seed=0):
    tokens, lengths = plain_inputs(encoder, names, context.shape[-2])
    model = encoder._model
    with torch.no_grad():
        expected = plain.features(model, tokens, torch.from_numpy(context), lengths, position).numpy()
    np.testing.assert_allclose(tower.features(context), expected, atol=1e-5)
    slopes = np.random.default_rng(seed).normal(size=expected.shape).astype(np.float32)
    wanted = plain.pullback(model, tokens, torch.from_numpy(context), torch.from_numpy(slopes), lengths, position)
    found = tower.pullback(context, slopes)
    assert found.shape == context.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-4 * np.abs(wanted.numpy()).max())


@settings(max_examples=25, deadline=None)
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=8, unique=True),
    length=st.integers(1, 6),
    position=st.sampled_from(["end", "middle", "front"]),
    class_specific=st.booleans(),
    kept_bytes=st.sampled_from([0, 3e5, 1e9]),
    at_once=st.sampled_from([1, 7, 512]),
    at_start=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_equals_the_plain_path(names, length, position, class_specific, kept_bytes, at_once, at_start, seed):
    encoder = openai_encoder()
    shape = (len(names), length, 64) if class_specific else (length, 64)
    random = np.random.default_rng(seed)
    start, other = (0.05 * random.normal(size=shape).astype(np.float32) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(towers, "TOKENS_AT_ONCE", at_once)
        tower = encoder.text_tower(names, position=position, context=start)
    tower._kept_bytes = kept_bytes
    for round_ in range(2):  # the second meets what was kept
        assert_equals_plain_path(encoder, tower, names, start if at_start else other, position, seed + round_)


def test_every_chunk_is_kept_within_the_limit_and_recomputed_beyond(monkeypatch):
    monkeypatch.setattr(towers, "TOKENS_AT_ONCE", 4)
    tower = openai_encoder().text_tower(NAMES)
    slopes = np.ones((len(NAMES), 32), np.float32)
    found = []
    for limit, least, most in ((0, 0, 0), (1e5, 1, len(tower._chunks) - 1), (1e9, *[len(tower._chunks)] * 2)):
        tower._kept_bytes, tower._pass_at_start = limit, None
        found.append(tower.pullback(tower.start, slopes))
        assert least <= len(tower._pass_at_start._graphs) <= most
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-5, atol=1e-6)


def image_features(encoder, pixels):
    with torch.no_grad():
        return functional.normalize(encoder._model.visual(torch.from_numpy(pixels.astype(np.float32))), dim=1)


def slopes_of(loss, features):
    text = torch.from_numpy(features).requires_grad_()
    return torch.autograd.grad(loss(text), text)[0].numpy()


def assert_gradient(found, expected, tolerance=1e-4):
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_it_equals_the_released_program_of_tpt(tmp_path):
    file = golden("tpt_rn_v16")
    encoder = load_encoder(f"openai:{write_golden_clip(file, tmp_path)}")
    tower = encoder.text_tower([str(name) for name in file["class_names"]])
    np.testing.assert_array_equal(tower.start, file["ctx0"])
    text = tower.features(tower.start)
    np.testing.assert_allclose(text, file["text_features0"], atol=5e-6)
    for image, pixels in enumerate(file["pixels"]):
        views = image_features(encoder, pixels)[file["selected"][image]]

        def entropy(text, views=views):
            logs = (float(file["logit_scale"]) * views @ text.T).log_softmax(1)
            mean = logs.logsumexp(0) - np.log(len(logs))
            return -(mean.exp() * mean).sum()

        slopes = slopes_of(entropy, text)
        assert_gradient(tower.pullback(tower.start, slopes), file["ctx_grad"][image, 0])


@pytest.mark.parametrize("name", ["coop_vit_csc", "coop_vit_middle"])
def test_it_equals_the_released_program_of_coop(name, tmp_path):
    file = golden(name)
    encoder = load_encoder(f"openai:{write_golden_clip(file, tmp_path)}")
    names = [str(name) for name in file["class_names"]]
    position = str(file["class_token_position"])
    tower = encoder.text_tower(names, position=position, context=file["ctx0"])
    np.testing.assert_allclose(tower.features(file["ctx0"]), file["text_features0"], atol=5e-6)
    images = image_features(encoder, file["train_pixels"])
    steps = file["batches"].reshape(-1, file["batches"].shape[-1])
    for context, batch, expected in zip([file["ctx0"], *file["ctx_after"]], steps, file["ctx_grad"], strict=False):

        def loss(text, batch=batch):
            logits = float(file["logit_scale"]) * images[batch] @ text.T
            return functional.cross_entropy(logits, torch.from_numpy(file["train_labels"][batch]).long())

        assert_gradient(tower.pullback(context, slopes_of(loss, tower.features(context))), expected, 2e-3)


@pytest.mark.parametrize("words", [WORDS, "cat", "of_of dog"])
def test_under_its_words_it_says_what_the_encoder_says(words, hf_folder):
    names = ["cat", "photo", "dog of_photo", "of"]
    weights = hf_folder.parent / "openai"
    weights.mkdir(exist_ok=True)
    torch.save(tiny_clips.openai_names(transformers.CLIPModel.from_pretrained(hf_folder)), weights / "weights.pt")
    tiny_clips.write_merges(weights)
    encoders = [load_encoder(f"hf:{hf_folder}"), load_encoder(f"openai:{weights / 'weights.pt'}")]
    encoders.append(load_encoder(f"openclip:ViT-B-16/{weights / 'weights.pt'}"))  # the same weights with plain GELU
    for encoder in encoders:
        tower = encoder.text_tower(names, words=words)
        sentences = [f"{words} {name}.".replace("_", " ") for name in names]
        np.testing.assert_allclose(tower.features(tower.start), encoder.encode_texts(sentences), atol=1e-5)
    slopes = np.random.default_rng(0).normal(size=(4, 24)).astype(np.float32)
    gradients = [encoder.text_tower(names, words=words).pullback(tower.start, slopes) for encoder in encoders]
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-4 * np.abs(gradients[1]).max())
    assert np.abs(gradients[2] - gradients[1]).max() > 1e-3 * np.abs(gradients[1]).max()


def test_open_clips_models_have_the_same_parts():
    from trimtab.encoders.prompted.layouts import openai_layout

    model = openai_encoder()._model
    own = torch.nn.Module()
    for part in ("token_embedding", "positional_embedding", "transformer", "ln_final", "text_projection"):
        setattr(own, part, getattr(model, part))
    whole = torch.nn.Module()
    whole.text = own
    assert openai_layout(whole).longest == 77
    own.pool_type = "last"
    with pytest.raises(TrimtabError, match="cannot be learned through this text tower"):
        openai_layout(whole)


def test_a_pass_is_counted_as_torch_counts_it(hf_folder, lite):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    names = ["cat", "golden retriever"]
    clip = load_encoder(f"hf:{hf_folder}")
    tokens, mask = (torch.from_numpy(array) for array in clip.tokenize([f"a photo of a {name}." for name in names]))
    filled = torch.nn.functional.pad(tokens, (0, 77 - tokens.shape[1]), value=int(tokens.max()))
    # Torch counts attention only where it is made of plain products.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        clip.sentence_tower(filled, torch.nn.functional.pad(mask, (0, 77 - mask.shape[1])))
    assert clip.text_tower(names).operations == pytest.approx(counted.get_total_flops(), rel=0.01)
    tower = lite.text_tower(names)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        tower._features(tower.start)
    assert tower.operations == pytest.approx(counted.get_total_flops(), rel=0.01)


@pytest.fixture(scope="module")
def lite():
    pytest.importorskip("efficientnet_lite_pytorch")
    return load_encoder("lite")


def test_lite_says_what_it_says_of_whole_sentences(lite):
    names = ["cat", "golden_retriever", "St. Bernard", "hand-held computer"]
    tower = lite.text_tower(names)
    sentences = [f"a photo of a {name}.".replace("_", " ") for name in names]
    np.testing.assert_allclose(tower.features(tower.start), lite.encode_texts(sentences), atol=1e-5)
    assert tower.start.shape == (4, 384)


@pytest.mark.parametrize(("position", "class_specific"), [("end", False), ("middle", False), ("front", True)])
def test_lite_pulls_back_what_differences_show(lite, position, class_specific):
    names = ["cat", "golden retriever", "St. Bernard"]
    random = np.random.default_rng(0)
    shape = (3, 3, 384) if class_specific else (3, 384)
    start = 0.05 * random.normal(size=shape).astype(np.float32)
    tower = lite.text_tower(names, position=position, context=start)
    slopes = random.normal(size=(3, 1280)).astype(np.float32)
    gradient = tower.pullback(start, slopes)
    np.testing.assert_array_equal(gradient, tower.pullback(start, slopes))
    direction = gradient / np.linalg.norm(gradient)
    step = np.float32(3e-2)
    rise = (tower.features(start + step * direction) - tower.features(start - step * direction)).astype(np.float64)
    assert (rise * slopes).sum() / (2 * step) == pytest.approx(np.linalg.norm(gradient), rel=2e-2)


def test_equal_towers_have_equal_fingerprints():
    encoder = openai_encoder()
    base = encoder.text_tower(NAMES).fingerprint
    assert encoder.text_tower(NAMES).fingerprint == base
    others = [
        encoder.text_tower(NAMES[::-1]),
        encoder.text_tower(NAMES, position="front"),
        encoder.text_tower(NAMES, words="a painting of a"),
        encoder.text_tower(NAMES, context=encoder.text_tower(NAMES).start + 1e-3),
    ]
    assert len({base, *(tower.fingerprint for tower in others)}) == 5


def test_its_arrays_are_its_own():
    tower = openai_encoder().text_tower(NAMES)
    first = tower.features(tower.start)
    first[...] = 0
    assert np.abs(tower.features(tower.start)).max() > 0
    with pytest.raises(ValueError, match="read-only"):
        tower.start[0] = 0


class Unknown:
    """What training programs pickle beside the weights."""

    def __init__(self):
        self.anything = {"a": [1, 2]}


def coop_checkpoint(file, context, start_mark, classes=3):
    content = {
        "ctx": torch.from_numpy(context).half(),
        "token_prefix": start_mark.expand(classes, 1, -1).half(),
        "token_suffix": torch.zeros(classes, 72, 64),
    }
    torch.save({"state_dict": content, "epoch": 50, "optimizer": Unknown(), "val_result": np.float64(1.5)}, file)


def test_a_released_coop_checkpoint_starts_it(tmp_path):
    encoder = openai_encoder()
    context = 0.05 * np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    mark = encoder._model.token_embedding.weight[49406].detach()
    coop_checkpoint(tmp_path / "model.pth.tar-50", context, mark)
    tower = encoder.text_tower(NAMES, context=tmp_path / "model.pth.tar-50")
    np.testing.assert_allclose(tower.start, context, atol=1e-4)
    coop_checkpoint(tmp_path / "other.pth.tar-50", context, mark + 0.05)
    with pytest.raises(TrimtabError, match="was learned with another backbone"):
        encoder.text_tower(NAMES, context=tmp_path / "other.pth.tar-50")


def test_a_context_of_our_own_says_where_it_belongs(tmp_path):
    encoder = openai_encoder()
    context = 0.05 * np.random.default_rng(0).normal(size=(5, 64)).astype(np.float32)
    file = tmp_path / "context.safetensors"
    about = {"encoder": encoder.name, "encoder_fingerprint": encoder.fingerprint}
    save_context(file, context, position="middle", **about)
    expected = encoder.text_tower(NAMES, context=context, position="middle")
    assert encoder.text_tower(NAMES, context=str(file)).fingerprint == expected.fingerprint
    with pytest.raises(TrimtabError, match="class names at the middle, not at the end"):
        encoder.text_tower(NAMES, context=file, position="end")
    save_context(file, context, position="end", encoder="hf:other", encoder_fingerprint="other")
    with pytest.raises(TrimtabError, match="was learned with hf:other, not with these weights"):
        encoder.text_tower(NAMES, context=file)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": np.zeros((4, 32), np.float32)}, "is 32 wide, but the text tower of openai:.* is 64 wide"),
        ({"context": np.zeros((2, 4, 64), np.float32)}, "is for 2 classes, but there are 10"),
        ({"context": np.full((4, 64), np.nan, np.float32)}, "holds NaN or infinity"),
        ({"context": np.zeros(64, np.float32)}, r"the shape \(L, w\) or \(classes, L, w\), not \(64,\)"),
        (
            {"context": np.zeros((70, 64), np.float32)},
            "is too long: with a context of 70 tokens it takes more than the 77",
        ),
        ({"context": "missing.pth"}, "There is no context file missing.pth"),
        ({"words": " "}, "must be a word or a sentence"),
        ({"position": "behind"}, "no position 'behind' of a class name; choose from end, middle, front"),
    ],
)
def test_wrong_contexts_are_one_sentence(options, message):
    with pytest.raises(TrimtabError, match=message):
        openai_encoder().text_tower(NAMES, **options)


def test_a_class_name_too_long_is_named():
    with pytest.raises(TrimtabError, match=r"class name 'cat cat .* is too long"):
        openai_encoder().text_tower(["dog", "cat " * 80])


def test_files_that_hold_no_context_are_explained(tmp_path):
    torch.save({"state_dict": {"weight": torch.ones(2)}}, tmp_path / "other.pth")
    torch.save({"ctx": torch.ones(2, 64), "compound_prompts_text.0": torch.ones(2, 64)}, tmp_path / "maple.pth")
    (tmp_path / "text.pth").write_text("nothing")
    (tmp_path / "text.safetensors").write_text("nothing")
    for name, message in (
        ("other.pth", "none of its tensors is called 'ctx'"),
        ("maple.pth", "MaPLe's deep prompts"),
        ("text.pth", "is not a context file; make one with `trimtab learn coop`"),
        ("text.safetensors", "does not hold a context"),
    ):
        with pytest.raises(TrimtabError, match=message):
            openai_encoder().text_tower(NAMES, context=tmp_path / name)


def test_encoders_without_a_tower_are_refused(hf_folder):
    encoder = load_encoder(f"hf:{hf_folder}")
    encoder._causal_text = None  # as for SigLIP and ALIGN
    with pytest.raises(TrimtabError, match="cannot be learned through the text tower of hf:"):
        encoder.text_tower(["cat", "of"])

    class Onnx:
        name = "onnx:folder"

    with pytest.raises(TrimtabError, match="onnx:folder has no text tower"):
        text_tower(Onnx(), ["cat", "of"])
