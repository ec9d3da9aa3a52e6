"""Bodies: the pictures or features that a request holds, in each of the forms that clients send them in."""

import asyncio
import base64
import binascii
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from trimtab.serve.problems import Problem

LARGE = 1 << 18  # bytes of JSON that are read in a thread, so that other requests need not wait
NPY: Final = b"\x93NUMPY"
ROWS: Final = "features"  # the name of the array in a safetensors file
FORMS: Final = "an image's bytes, multipart/form-data with image files, or JSON {'inputs': base64}"


@dataclass(frozen=True)
class Pictures:
    """The pictures of a request; `several` says whether the client sent a list, and wants one back."""

    files: list[bytes]
    several: bool
    parameters: Mapping[str, Any]  # what a Hugging Face client says beside its inputs


async def pictures_of(request: Request, most: int) -> Pictures:
    """The pictures in a request's body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        found = await _from_form(request, most)
    elif kind == "application/json" or kind.endswith("+json"):
        body = await request.body()
        found = await asyncio.to_thread(_from_json, body) if len(body) > LARGE else _from_json(body)
    elif kind.startswith("image/") or kind in ("", "application/octet-stream", "application/x-www-form-urlencoded"):
        # A form's type is what curl says of --data-binary unless it is told otherwise.
        found = Pictures([await request.body()], False, {})
    else:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A body of the type {kind!r} is not known here; send {FORMS}."
        )
    if not found.files or not all(found.files):
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"There is no picture in the request, or an empty one; send {FORMS}."
        )
    if len(found.files) > most:
        raise Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The request holds {len(found.files)} pictures; send at most {most} at once.",
        )
    return found


async def _from_form(request: Request, most: int) -> Pictures:
    try:
        async with request.form(max_files=most + 1, max_fields=64) as form:
            files = [await value.read() for _, value in form.multi_items() if isinstance(value, UploadFile)]
    except HTTPException as error:
        raise Problem(error.status_code, f"{error.detail.rstrip('.')}.") from None
    return Pictures(files, True, {})


def _from_json(body: bytes) -> Pictures:
    content = json_object(body)
    given, parameters = content.get("inputs"), content.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "'parameters' must be an object of values by name.")
    several = isinstance(given, list)
    inputs: list[Any] = given if isinstance(given, list) else [given]
    return Pictures([from_base64(each) for each in inputs], several, parameters)


def from_base64(given: object) -> bytes:
    """A picture written as base64, alone or as a data: address."""
    if isinstance(given, dict):  # {"image": ...}, as some clients of zero-shot pipelines send it
        given = given.get("image")
    if not isinstance(given, str):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "'inputs' must be a picture in base64, or a list of them.")
    text = given.partition(",")[2] if given.startswith("data:") else given
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "A picture in 'inputs' is not base64.") from None


def json_object(body: bytes) -> dict[str, Any]:
    """A JSON object, or a clear refusal of anything else."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(HTTPStatus.BAD_REQUEST, "The request's body is not JSON.") from None
    if not isinstance(content, dict):
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The request's body must be a JSON object.")
    return content


def rows_of(body: bytes, most: int) -> NDArray[np.float32]:
    """(N, V, d) features from a .npy file, or from a safetensors file that holds `features`."""
    rows = _from_npy(body) if body.startswith(NPY) else _from_safetensors(body)
    if rows.dtype.kind != "f" or rows.ndim not in (1, 2, 3) or rows.size == 0:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"Features must be floating-point numbers of the shape (d), (images, d) or (images, views, d), "
            f"not {rows.dtype} of the shape {rows.shape}.",
        )
    rows = rows[None, None] if rows.ndim == 1 else rows[:, None] if rows.ndim == 2 else rows
    if len(rows) > most:
        raise Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The request holds {len(rows)} images; send at most {most} at once."
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold is found with everything else that is not finite
        found = np.ascontiguousarray(rows, np.float32)
    if not np.isfinite(found).all():
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Features must be finite numbers; these hold NaN or infinity.")
    return found


def _from_npy(body: bytes) -> NDArray[Any]:
    """By the header, which is compared with the file's length before anything is allocated; nothing is unpickled."""
    file = io.BytesIO(body)
    try:
        version = npy.read_magic(file)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, by_columns, dtype = read(file)
    except Exception:  # NumPy parses the header as Python's literals, and raises nearly anything
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The .npy file has a damaged header; save it again.") from None
    start = file.tell()
    if dtype.hasobject or dtype.itemsize * math.prod(shape) != len(body) - start:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "The .npy file is cut off, or does not hold plain numbers.")
    flat = np.frombuffer(body, dtype, offset=start)
    return flat.reshape(shape, order="F" if by_columns else "C")


def _from_safetensors(body: bytes) -> NDArray[Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(body)
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError):
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Features come as a .npy or a safetensors file; this is neither."
        ) from None
    if ROWS not in arrays and len(arrays) != 1:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"The safetensors file must hold one array, called {ROWS!r}.")
    return arrays[ROWS] if ROWS in arrays else next(iter(arrays.values()))
