"""`hf:<id or folder>`: CLIP, SigLIP, ALIGN and relatives through transformers. Works without torchvision."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, normalizers
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import cached_file, logging

from trimtab.encoders.base import first_line
from trimtab.encoders.damage import refuse_damaged
from trimtab.encoders.prompted.layouts import transformers_layout
from trimtab.encoders.tokens import TextTokens
from trimtab.encoders.torch_encoder import PixelScale, TorchEncoder
from trimtab.errors import TrimtabError

# Trained on texts filled up to the full context, without a mask; their pooling reads the last position.
FULL_CONTEXT = ("siglip",)
SETTINGS_FILES = ("preprocessor_config.json", "processor_config.json")
SMALLEST_SHARE = 0.9  # of a model's vocabulary that its tokenizer must make; models round their vocabulary up
PUNCTUATION = r"[!-/:-@\[-`{-~]"  # the ASCII punctuation that SigLIP was trained without


class ImageHalf(torch.nn.Module):
    """Images -> features in the joint space."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Through the vision model and its projection."""
        return _features(self.model.get_image_features(pixel_values=pixels))


class TextHalf(torch.nn.Module):
    """Tokens -> features in the joint space."""

    def __init__(self, model: Any, use_mask: bool) -> None:
        super().__init__()
        self.model = model
        self.use_mask = use_mask

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Through the text model and its projection."""
        masked = {"attention_mask": mask} if self.use_mask else {}
        return _features(self.model.get_text_features(input_ids=tokens, **masked))


def load(name: str, device: str, precision: str) -> TorchEncoder:
    """The encoder in a local folder, in the Hugging Face cache, or on the hub."""
    source = name.partition(":")[2]
    folder = Path(source).expanduser()
    if folder.is_dir():
        source = str(folder)
    elif source.count("/") != 1 or source.startswith(("/", ".", "~")):  # an id on the hub is owner/model
        raise TrimtabError(f"There is no folder {folder}; give a folder that holds a checkpoint, or an id owner/model.")
    try:
        return _encoder(name, source, device, precision)
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # transformers, safetensors and tokenizers each raise kinds of their own
        if folder.is_dir():
            refuse_damaged(folder)
        if isinstance(error, TrimtabError):
            raise
        raise TrimtabError(
            f"No encoder could be made of {source!r}; its files do not belong together, or are of a kind that trimtab "
            f"does not know. What went wrong: {first_line(error)}"
        ) from error


def _encoder(name: str, source: str, device: str, precision: str) -> TorchEncoder:
    config, model = _model(source)
    fill = config.model_type in FULL_CONTEXT
    settings, texts = _image_settings(source), config.text_config
    return TorchEncoder(
        name,
        model,
        ImageHalf(model),
        TextHalf(model, use_mask=not fill),
        _tokens(source, texts.vocab_size, texts.max_position_embeddings, pad_to_context=fill),
        input_size=_input_size(settings, config),
        pixel_scale=_pixel_scale(settings),
        logit_scale=_logit_scale(model),
        logit_bias=float(model.logit_bias.detach()) if hasattr(model, "logit_bias") else 0.0,
        causal_text=transformers_layout if config.model_type == "clip" else None,
        device=device,
        precision=precision,
    )


def _model(source: str) -> tuple[Any, Any]:
    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what it reports about the weights is checked below
    try:
        config = AutoConfig.from_pretrained(source)
        model, report = AutoModel.from_pretrained(source, config=config, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise TrimtabError(
            f"No model could be loaded from {source!r}; give the folder of a whole checkpoint, "
            f"or an id where the hub can be reached. Transformers says: {first_line(error)}"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
    if not (hasattr(model, "get_image_features") and hasattr(model, "get_text_features")):
        raise TrimtabError(f"{source!r} is a {config.model_type} model, which does not encode both images and texts.")
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise TrimtabError(
            f"{source!r} lacks {len(missing)} of the weights of a {config.model_type} model, such as {missing[0]}; "
            "copy the checkpoint again."
        )
    if not hasattr(config, "text_config") or not hasattr(config, "vision_config") or config.model_type == "siglip2":
        raise TrimtabError(
            f"Models of the kind {config.model_type} are not supported; use CLIP, SigLIP or ALIGN relatives."
        )
    return config, model


def _image_settings(source: str) -> Mapping[str, Any]:
    """What the checkpoint says about its images, read as data: the processors themselves would want torchvision."""
    for file in SETTINGS_FILES:
        try:
            found = cached_file(source, file)
            settings = json.loads(Path(found).read_text(encoding="utf-8"))
        except OSError:
            continue
        except ValueError as error:
            raise TrimtabError(f"{file} of {source!r} is not valid JSON: {error}") from error
        if not isinstance(settings, dict):
            raise TrimtabError(f"{file} of {source!r} must hold a JSON object; copy it again.")
        inner: dict[str, Any] = settings.get("image_processor", settings)
        return inner
    raise TrimtabError(f"{source!r} has no preprocessor_config.json, which says how its images are scaled; add it.")


def _input_size(settings: Mapping[str, Any], config: Any) -> int:
    keys = ("crop_size", "size") if settings.get("do_center_crop") else ("size",)
    sizes = [settings[key] for key in keys if settings.get(key)]
    size = sizes[0] if sizes else config.vision_config.image_size
    if isinstance(size, Mapping):
        if size.get("height") != size.get("width"):
            raise TrimtabError(f"This encoder takes images of {size}, but trimtab makes square ones.")
        size = size.get("height") or size.get("shortest_edge")
    return int(size)


def _pixel_scale(settings: Mapping[str, Any]) -> PixelScale:
    """The processors' steps in their order: rescale, shift to -1 .. 1, normalize, normalize again (EfficientNet's)."""
    factor, offset = [1.0] * 3, [0.0] * 3
    normalize = settings.get("do_normalize", True)
    # Where the file does not say, only EfficientNet's processor does this.
    twice = settings.get("include_top", "EfficientNet" in settings.get("image_processor_type", ""))
    mean, deviation = settings.get("image_mean", ()), settings.get("image_std", ())
    if (normalize or twice) and not (mean and deviation):
        raise TrimtabError("The checkpoint's preprocessor_config.json states no image_mean and image_std; add them.")
    if settings.get("do_rescale", True):
        factor = [float(settings.get("rescale_factor", 1 / 255))] * 3
        if settings.get("rescale_offset"):
            offset = [-1.0] * 3
    if normalize:
        factor = [value / spread for value, spread in zip(factor, deviation, strict=True)]
        offset = [(value - middle) / spread for value, middle, spread in zip(offset, mean, deviation, strict=True)]
    if twice:
        factor = [value / spread for value, spread in zip(factor, deviation, strict=True)]
        offset = [value / spread for value, spread in zip(offset, deviation, strict=True)]
    return PixelScale((factor[0], factor[1], factor[2]), (offset[0], offset[1], offset[2]))


def _logit_scale(model: Any) -> float:
    if hasattr(model, "logit_scale"):
        return float(model.logit_scale.detach().float().exp())
    if hasattr(model, "temperature"):  # ALIGN divides by it
        return 1.0 / float(model.temperature.detach().float())
    raise TrimtabError(f"A {model.config.model_type} model has no logit scale, so its cosines cannot be scaled.")


def _features(output: Any) -> torch.Tensor:
    """The features themselves: transformers 4 returns them, transformers 5 an output that holds them."""
    features: torch.Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return features


def _tokens(source: str, vocabulary: int, context: int, *, pad_to_context: bool) -> TextTokens:
    """Texts of at most `context` tokens for a model that knows `vocabulary`; `pad_to_context` as SigLIP wants it."""
    tokenizer = _fast_tokenizer(source)
    backend = tokenizer.backend_tokenizer
    size = backend.get_vocab_size()
    # Where files are missing, transformers may silently make a tokenizer of hardly any words.
    if not SMALLEST_SHARE * vocabulary <= size <= vocabulary:
        raise TrimtabError(
            f"The model in {source!r} reads {vocabulary} different tokens but its tokenizer makes {size}; "
            "its tokenizer files are missing or belong to another model."
        )
    _refuse_lost_merges(Path(source), backend)
    if pad_to_context:
        _clean_as_siglip(backend, keep_punctuation=not _is_first_siglip(tokenizer))
    return TextTokens.prepare(
        backend, context, tokenizer.pad_token, pad_to_context=pad_to_context, direction=tokenizer.padding_side
    )


def _fast_tokenizer(source: str) -> Any:
    problem: Exception | None = None
    for kind in (AutoTokenizer, PreTrainedTokenizerFast):
        # The first may need sentencepiece for what the second reads from tokenizer.json.
        try:
            tokenizer = kind.from_pretrained(source)
        except Exception as error:  # tokenizers raises plain Exception
            problem = problem or error
            continue
        if getattr(tokenizer, "backend_tokenizer", None) is not None and tokenizer.pad_token is not None:
            return tokenizer
    reason = f" ({first_line(problem)})" if problem else ""
    raise TrimtabError(
        f"{source!r} has no usable tokenizer{reason}; add its tokenizer.json, or its vocab.json and merges.txt."
    ) from problem


def _refuse_lost_merges(folder: Path, backend: Any) -> None:
    """A merges.txt that was cut off at the end of a line still loads, and splits words in silence."""
    file = folder / "merges.txt"
    if not file.is_file() or (folder / "tokenizer.json").is_file():
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    made = {"".join(line.split()) for line in lines if line.strip() and not line.startswith("#version")}
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    words = {token for token in backend.get_vocab() if len(token.removesuffix("</w>")) > 1 and token not in added}
    lost = words - made - {"<|startoftext|>", "<|endoftext|>"}
    if lost:
        raise TrimtabError(
            f"{file} makes {len(lost)} of the {len(words)} tokens of vocab.json no longer, such as {min(lost)!r}: "
            "it was cut off or belongs to another model; copy it again."
        )


def _clean_as_siglip(backend: Any, *, keep_punctuation: bool) -> None:
    """Put the cleaning that SigLIP's texts had in training before the tokenizer's own; doing it twice does no harm."""
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
