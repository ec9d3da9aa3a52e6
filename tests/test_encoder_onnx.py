import contextlib
import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from PIL import Image  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import test_encoder_openai  # noqa: E402
import test_encoder_siglip  # noqa: E402
import tiny_clips  # noqa: E402
from tiny_clips import some_pixels  # noqa: E402
from tiny_encoder import COLORS, colored  # noqa: E402
from trimtab.cli.export import export  # noqa: E402
from trimtab.cli.main import app  # noqa: E402
from trimtab.encoders import Encoder, load_encoder  # noqa: E402
from trimtab.encoders.onnx import open_session, run_session  # noqa: E402
from trimtab.encoders.onnx_export import export_onnx, write_onnx_folder  # noqa: E402
from trimtab.encoders.onnx_int8 import quantize_tower  # noqa: E402
from trimtab.errors import TrimtabError  # noqa: E402

siglip, vit, resnet = test_encoder_siglip.siglip, test_encoder_openai.vit, test_encoder_openai.resnet
TEXTS = ["a photo of a cat", "cat", "of it's a dog, a dog and a dog!"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A CLIP that a user exported with the command."""
    folder = tmp_path_factory.mktemp("onnx")
    tiny_clips.save_hf_clip(folder / "clip")
    arguments = ("--to", "onnx", "--encoder", f"hf:{folder / 'clip'}", "-o", str(folder / "onnx"))
    done = CliRunner().invoke(app, ["export", *arguments])
    assert done.exit_code == 0, done.output
    return folder, done.stdout


def agree(original, exported, count=5):
    pixels = some_pixels(count, seed=3, side=original.input_size)
    np.testing.assert_allclose(exported.encode_images(pixels), original.encode_images(pixels), atol=1e-5)
    np.testing.assert_allclose(exported.encode_texts(TEXTS), original.encode_texts(TEXTS), atol=1e-5)
    assert (exported.dim, exported.input_size) == (original.dim, original.input_size)
    assert exported.logit_scale == pytest.approx(original.logit_scale)
    assert exported.logit_bias == pytest.approx(original.logit_bias)


def test_the_command_reports_small_differences(exported):
    _, output = exported
    differences = [float(line.split()[-1]) for line in output.splitlines() if "largest difference" in line]
    assert len(differences) == 2
    assert max(differences) < 1e-5


def test_an_exported_clip_is_the_clip(exported):
    folder, _ = exported
    written = load_encoder(f"onnx:{folder / 'onnx'}")
    assert isinstance(written, Encoder)
    agree(load_encoder(f"hf:{folder / 'clip'}"), written)
    with pytest.warns(UserWarning, match="longer than the 77 tokens"):
        long = written.encode_texts(["cat " * 100])
    np.testing.assert_allclose(long, written.encode_texts(["cat " * 75]), atol=1e-6)


def test_an_exported_encoder_needs_no_torch(exported):
    program = (
        "import sys, numpy as np\n"
        "from trimtab.encoders import load_encoder\n"
        f"encoder = load_encoder('onnx:{exported[0] / 'onnx'}')\n"
        "encoder.encode_texts(['cat']), encoder.encode_images(np.zeros((1, 32, 32, 3), np.uint8))\n"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_siglip_and_a_resnet_can_be_exported(siglip, resnet, tmp_path):
    for number, name in enumerate((f"hf:{siglip[0]}", f"openai:{resnet[0]}")):
        original = load_encoder(name)
        differences, _ = write_onnx_folder(original, tmp_path / str(number))
        assert max(differences.values()) < 1e-5
        agree(original, load_encoder(f"onnx:{tmp_path / str(number)}"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Forty photographs of one color each, more or less."""
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(40):
        Image.fromarray(colored(tuple(COLORS)[number % 4], seed=number)).save(folder / f"{number}.png")
    return folder


@pytest.fixture
def exported_once(exported, monkeypatch):
    """The same CLIP once more: what every export begins with, and what torch takes ten seconds for, is copied."""

    def write_files(encoder, tokens, folder):
        shutil.copytree(exported[0] / "onnx", folder, dirs_exist_ok=True)

    monkeypatch.setattr("trimtab.encoders.onnx_export._write_files", write_files)
    return exported


def test_eight_bits_are_exported_with_what_they_agree_on(exported_once, pictures, tmp_path):
    exported, folder, output = exported_once, tmp_path / "int8", io.StringIO()
    with contextlib.redirect_stdout(output):
        export(f"hf:{exported[0] / 'clip'}", folder, precision="int8", images=pictures)
    exact, small = load_encoder(f"onnx:{exported[0] / 'onnx'}"), load_encoder(f"onnx:{folder}", precision="int8")
    assert "int8 and fp32 agree on 20 images: cosine" in output.getvalue()
    kept = json.loads((folder / "encoder.json").read_text())
    assert (kept["precision"], kept["quantized"], kept["agreement"]["images"]) == ("int8", "dynamic", 20)
    pixels = some_pixels(6)
    images = small.encode_images(pixels)
    assert 1e-6 < 1 - (images * exact.encode_images(pixels)).sum(axis=1).min() < 0.01
    assert np.array_equal(images, np.concatenate([small.encode_images(pixels[i : i + 1]) for i in range(6)]))
    assert np.array_equal(small.encode_texts(TEXTS), exact.encode_texts(TEXTS))
    assert small.fingerprint != exact.fingerprint
    assert load_encoder(f"onnx:{folder}").precision == "int8"  # also if nobody asks
    with pytest.raises(TrimtabError, match="was exported in int8 and runs in that"):
        load_encoder(f"onnx:{folder}", precision="bf16")


def test_half_precision_is_half_the_size(exported_once, pictures, tmp_path, monkeypatch):
    exported, folder, output = exported_once, tmp_path / "fp16", io.StringIO()
    clip = f"hf:{exported[0] / 'clip'}"
    with contextlib.redirect_stdout(output):
        export(clip, folder, precision="fp16", images=pictures)
    assert "fp16 and fp32 agree on 40 images: cosine" in output.getvalue()
    exact, half = load_encoder(f"onnx:{exported[0] / 'onnx'}"), load_encoder(f"onnx:{folder}", precision="fp16")
    for name in ("image.onnx", "text.onnx"):
        assert (folder / name).stat().st_size < 0.75 * (exported[0] / "onnx" / name).stat().st_size
    pixels = some_pixels(6)
    for one, other in (
        (half.encode_images(pixels), exact.encode_images(pixels)),
        (half.encode_texts(TEXTS), exact.encode_texts(TEXTS)),
    ):
        assert 0 < np.abs(one - other).max() < 0.01
    assert half.fingerprint != exact.fingerprint
    monkeypatch.setattr("trimtab.encoders.onnx_export.HALF_TOLERANCE", 0.0)
    with pytest.raises(TrimtabError, match="does not stand fp16"):
        export(clip, tmp_path / "again", precision="fp16")
    assert not (tmp_path / "again").exists()


def test_convolutions_are_calibrated(resnet, tmp_path):
    encoder = load_encoder(f"openai:{resnet[0]}")
    pixels = some_pixels(16, side=encoder.input_size)
    export_onnx(encoder.image_tower, (torch.from_numpy(pixels[:2]),), ["pixels"], [{0: "images"}], tmp_path / "fp32")
    assert quantize_tower(tmp_path / "fp32", tmp_path / "int8", pixels) == "static"
    exact, small = (run_session(open_session(tmp_path / name), {"pixels": pixels}) for name in ("fp32", "int8"))
    cosines = (exact * small).sum(axis=1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(small, axis=1)
    assert 0.9 < cosines.min() < 1 - 1e-6
    np.testing.assert_allclose(
        small.mean(axis=0), exact.mean(axis=0), rtol=1e-4, atol=1e-4
    )  # what rounding shifts is given back


def test_eight_bits_that_agree_badly_are_not_written(exported_once, pictures, tmp_path, monkeypatch):
    clip = f"hf:{exported_once[0] / 'clip'}"
    monkeypatch.setattr("trimtab.encoders.agreement.LEAST_COSINE", 1.1)
    with pytest.raises(TrimtabError, match="does not stand int8"):
        export(clip, tmp_path / "int8", precision="int8", images=pictures)
    for options, words in (
        ({"precision": "int8"}, "needs --images FOLDER"),
        ({"images": pictures}, "fp32 is the original"),
        ({"precision": "bf16"}, "cannot compute in bf16"),
        ({"precision": "fp8"}, "in fp32, fp16 or int8, not in fp8"),
        ({"precision": "int8", "images": tmp_path / "none"}, "no folder"),
    ):
        with pytest.raises(TrimtabError, match=words):
            export(clip, tmp_path / "int8", **options)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("trimtab.encoders.onnx_export._write_files", pytest.fail)  # refused before that takes its time
    with pytest.raises(TrimtabError, match="at least 16 images"):
        export(clip, tmp_path / "int8", precision="int8", images=tmp_path / "empty")
    assert [file.name for file in tmp_path.iterdir()] == ["empty"]


def test_nothing_is_overwritten_or_left_behind(exported, tmp_path):
    folder, _ = exported
    with pytest.raises(TrimtabError, match="already there and not empty"):
        export(f"hf:{folder / 'clip'}", folder / "onnx")
    with pytest.raises(TrimtabError, match="There is no format 'tflite'"):
        export(f"hf:{folder / 'clip'}", tmp_path / "new", to="tflite")
    with pytest.raises(TrimtabError, match="already made of ONNX files"):
        export(f"onnx:{folder / 'onnx'}", tmp_path / "new")
    with pytest.raises(TrimtabError, match="No model could be loaded"):
        export(f"hf:{tmp_path}", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_the_fingerprint_follows_the_files(exported, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(exported[0] / "onnx", folder)
    original = load_encoder(f"onnx:{exported[0] / 'onnx'}").fingerprint
    assert load_encoder(f"onnx:{folder}").fingerprint == original
    settings = json.loads((folder / "encoder.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**settings, "logit_scale": 7.0}))
    assert load_encoder(f"onnx:{folder}").fingerprint != original


def test_a_chosen_cuda_device_reaches_onnx_runtime(monkeypatch, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda _file, _options, providers: providers)
    assert open_session(tmp_path, "cpu") == ["CPUExecutionProvider"]
    for device, number in (("cuda", 0), ("cuda:1", 1)):
        assert open_session(tmp_path, device)[0] == ("CUDAExecutionProvider", {"device_id": number})
    with pytest.raises(TrimtabError, match="not on 'cuda:one'"):
        open_session(tmp_path, "cuda:one")


def test_wrong_folders_are_explained(exported, tmp_path):
    with pytest.raises(TrimtabError, match=r"no encoder\.json and no image\.onnx"):
        load_encoder(f"onnx:{tmp_path}")
    folder = tmp_path / "copy"
    shutil.copytree(exported[0] / "onnx", folder)
    name, good = f"onnx:{folder}", json.loads((folder / "encoder.json").read_text())

    def settings(**changes):
        (folder / "encoder.json").write_text(json.dumps(good | changes))

    settings(format=99)
    with pytest.raises(TrimtabError, match="format 99"):
        load_encoder(name)
    settings(input_size=None)
    with pytest.raises(TrimtabError, match="no positive input_size"):
        load_encoder(name)
    (folder / "encoder.json").write_text("[1")
    with pytest.raises(TrimtabError, match="does not describe an encoder"):
        load_encoder(name)
    settings(dim=23)
    with pytest.raises(TrimtabError, match=r"encoder\.json says 23"):
        load_encoder(name).encode_images(some_pixels(1))
    settings()
    with pytest.raises(TrimtabError, match="was exported in fp32 and runs in that"):
        load_encoder(name, precision="fp16")
    with pytest.raises(TrimtabError, match="run on cpu, cuda or cuda:<number>, not on 'mps'"):
        load_encoder(name, device="mps").encode_images(some_pixels(1))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(TrimtabError, match="not a tokenizer file"):
        load_encoder(name).encode_texts(["cat"])
    (folder / "image.onnx").write_bytes((folder / "image.onnx").read_bytes()[:500])
    with pytest.raises(TrimtabError, match="not a model that ONNX Runtime can open"):
        load_encoder(name).encode_images(some_pixels(1))


@pytest.mark.parametrize("name", ["encoder.json", "image.onnx", "text.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b"not at all", None])
def test_a_broken_file_is_named(exported, tmp_path, name, content):
    folder = tmp_path / "onnx"
    shutil.copytree(exported[0] / "onnx", folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: len(whole) // 2] if content is None else content)

    def use():
        encoder = load_encoder(f"onnx:{folder}")
        encoder.encode_texts(["a cat"])
        encoder.encode_images(some_pixels())

    with pytest.raises(TrimtabError) as caught:
        use()
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
