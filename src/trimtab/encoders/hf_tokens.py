"""The tokenizer that belongs to a transformers checkpoint."""

from typing import Any

from trimtab.encoders.tokens import TextTokens
from trimtab.errors import TrimtabError

PUNCTUATION = r"[!-/:-@\[-`{-~]"  # the ASCII punctuation that SigLIP was trained without

SMALLEST_SHARE = 0.9  # models round their vocabulary up


def hf_tokens(source: str, vocabulary: int, context: int, *, pad_to_context: bool) -> TextTokens:
    """Texts of at most `context` tokens for a model that knows `vocabulary`; `pad_to_context` as SigLIP wants it."""
    tokenizer = _fast_tokenizer(source)
    backend = tokenizer.backend_tokenizer
    size = backend.get_vocab_size()
    # Where files are missing, transformers may make a tokenizer of next to no words without a word about it.
    if not SMALLEST_SHARE * vocabulary <= size <= vocabulary:
        raise TrimtabError(
            f"The model in {source!r} reads {vocabulary} different tokens but its tokenizer makes {size}; "
            "its tokenizer files are missing or belong to another model."
        )
    if pad_to_context:
        _clean_as_siglip(backend, keep_punctuation=not _is_first_siglip(tokenizer))
    return TextTokens.prepare(
        backend, context, tokenizer.pad_token, pad_to_context=pad_to_context, direction=tokenizer.padding_side
    )


def _fast_tokenizer(source: str) -> Any:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    problem: Exception | None = None
    for kind in (AutoTokenizer, PreTrainedTokenizerFast):
        # The first may need sentencepiece for what the second reads from tokenizer.json.
        try:
            tokenizer = kind.from_pretrained(source)
        except (ImportError, OSError, ValueError, TypeError, AttributeError) as error:
            problem = problem or error
            continue
        if getattr(tokenizer, "backend_tokenizer", None) is not None and tokenizer.pad_token is not None:
            return tokenizer
    reason = f": {str(problem).strip().splitlines()[0]}" if problem else ""
    raise TrimtabError(f"{source!r} has no usable tokenizer; add its tokenizer.json{reason}") from problem


def _clean_as_siglip(backend: Any, *, keep_punctuation: bool) -> None:
    """Put the cleaning that SigLIP's texts had in training before the tokenizer's own; doing it twice does no harm."""
    from tokenizers import Regex, normalizers

    steps: list[Any] = [normalizers.Lowercase()]
    if not keep_punctuation:
        steps += [
            normalizers.Replace(Regex(PUNCTUATION), ""),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Strip(),
        ]
    if backend.normalizer is not None:
        steps.append(backend.normalizer)
    backend.normalizer = normalizers.Sequence(steps)


def _is_first_siglip(tokenizer: Any) -> bool:
    """SigLIP fills up with its end mark; SigLIP 2 has Gemma's vocabulary, with a token for padding."""
    return bool(tokenizer.pad_token == "</s>")
