"""A CLIP of the size of ViT-B/16 with random weights: as slow as the real one, and it needs no download.

Written as a checkpoint of Hugging Face's, so that everybody's program reads the same file.
"""

import json
from pathlib import Path

WORDS = ("a", "photo", "of", "the")


def write_clip(folder: Path, *, seed: int = 0) -> Path:
    """The checkpoint in `folder`, written if it is not there."""
    import torch
    import transformers

    if (folder / "model.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    words = _vocabulary()
    ends = {"bos_token_id": words["<|startoftext|>"], "eos_token_id": words["<|endoftext|>"]}
    text = {"vocab_size": len(words), "pad_token_id": ends["eos_token_id"], **ends}
    config = transformers.CLIPConfig(text_config=text, vision_config={"patch_size": 16})
    torch.manual_seed(seed)
    model = transformers.CLIPModel(config).eval()
    (folder / "vocab.json").write_text(json.dumps(words))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in _merges()))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "CLIPTokenizer", "model_max_length": 77})
    )
    transformers.CLIPImageProcessor().save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def _merges() -> list[tuple[str, str]]:
    """Merges that make a few whole words; all others stay letters."""
    merges = []
    for word in WORDS:
        for end in range(1, len(word)):
            left, right = word[:end], word[end] + ("</w>" if end == len(word) - 1 else "")
            merges.append((left, right))
    return list(dict.fromkeys(merges))


def _vocabulary() -> dict[str, int]:
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in visible] + [chr(256 + rank) for rank in range(256 - len(visible))]
    merged = [left + right for left, right in _merges()]
    tokens = [*letters, *(letter + "</w>" for letter in letters), *merged, "<|startoftext|>", "<|endoftext|>"]
    return {token: number for number, token in enumerate(tokens)}
