import subprocess
import sys

import pytest

from trimtab.encoders import KINDS, load_encoder
from trimtab.errors import TrimtabError


@pytest.mark.parametrize("name", ["clip", "", "lite:", "lite:0", "nothing:ViT-B/16", "hf"])
def test_an_unknown_name_lists_the_choices(name):
    with pytest.raises(TrimtabError, match="choices are lite"):
        load_encoder(name)


def test_a_missing_package_gives_the_command_that_installs_it(tmp_path, monkeypatch):
    (tmp_path / "module_that_wants_more.py").write_text("import package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(KINDS, "hf", ("module_that_wants_more", "hf:<id or folder>", "clip"))
    with pytest.raises(TrimtabError, match=r"needs package_that_is_not_there; run: pip install 'trimtab\[clip\]'"):
        load_encoder("hf:openai/clip-vit-base-patch16")


def test_an_unknown_precision_lists_the_choices():
    with pytest.raises(TrimtabError, match="fp32, fp16, bf16, int8"):
        load_encoder("lite", precision="int4")


def test_the_doors_import_neither_torch_nor_onnx_runtime():
    program = (
        "import sys, trimtab.encoders.lite, trimtab.encoders.openai, trimtab.encoders.onnx, trimtab.prompts\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'onnxruntime', 'tokenizers')))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
