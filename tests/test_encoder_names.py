import pytest

from trimtab.encoders import load_encoder
from trimtab.errors import TrimtabError


@pytest.mark.parametrize("name", ["clip", "", "lite:", "lite:0", "nothing:ViT-B/16", "hf"])
def test_an_unknown_name_lists_the_choices(name):
    with pytest.raises(TrimtabError, match="choices are lite"):
        load_encoder(name)


def test_an_unknown_precision_lists_the_choices():
    with pytest.raises(TrimtabError, match="fp32, fp16, bf16"):
        load_encoder("lite", precision="int8")
