"""CLIP's own tokenizer: byte-level BPE, lower case, 77 tokens."""

import gzip
import zlib
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from trimtab.encoders.tokens import TextTokens, read_tokenizer
from trimtab.errors import TrimtabError

START, END = "<|startoftext|>", "<|endoftext|>"
SHIPPED = Path(__file__).with_name("bpe_simple_vocab_16e6.txt.gz")  # the list of merges, as OpenAI publishes it
OWN_FILES = ("tokenizer.json", "merges.txt", SHIPPED.name)  # beside a checkpoint, they come before ours
PUBLISHED_MERGES = 49152 - 256 - 2  # the file lists more; the model was trained with these
WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def clip_tokens(beside: Path, vocabulary: int, context: int) -> TextTokens:
    """The tokenizer for a checkpoint in the folder `beside`, which must know exactly `vocabulary` tokens.

    A checkpoint trained with another vocabulary has its tokenizer beside it; all others get CLIP's own.
    """
    file = next((beside / name for name in OWN_FILES if (beside / name).is_file()), SHIPPED)
    tokenizer = read_tokenizer(file) if file.suffix == ".json" else clip_tokenizer(read_merges(file))
    if tokenizer.get_vocab_size() != vocabulary:
        raise TrimtabError(
            f"The checkpoint reads {vocabulary} different tokens but {file} makes {tokenizer.get_vocab_size()}; "
            "put the tokenizer that belongs to the checkpoint beside it."
        )
    return TextTokens.prepare(tokenizer, context, str(tokenizer.id_to_token(0)))  # OpenAI fills up with zeros


def clip_tokenizer(merges: list[tuple[str, str]]) -> Tokenizer:
    """The vocabulary is the 256 bytes, the same at the end of a word, every merge, and the two marks, in this order."""
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


def _letters_of_bytes() -> list[str]:
    """One visible letter per byte, printable bytes first, as byte-level BPE numbers them."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return [chr(byte) for byte in printable] + [chr(256 + rank) for rank in range(len(others))]
