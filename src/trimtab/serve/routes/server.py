"""The server itself: health and metadata in the shape of the Open Inference Protocol, and metrics."""

from fastapi import APIRouter, Response

import trimtab
from trimtab.serve.problems import Busy
from trimtab.serve.routes.given import Stream, TheService, as_json, refusals
from trimtab.serve.schemas import Live, ModelInfo, Ready, ServerInfo

router = APIRouter(tags=["server"])


@router.get("/v2/health/live", summary="Is it alive?", response_model=Live, responses=refusals())
async def live() -> Response:
    """Whoever gets an answer has one."""
    return as_json({"live": True})


@router.get("/v2/health/ready", summary="Does it take requests?", response_model=Ready, responses=refusals())
async def ready(service: TheService) -> Response:
    """Not while it is stopping."""
    if service.stopping.is_set():
        raise Busy("The server is stopping.", retry_after=5)
    return as_json({"ready": True})


@router.get("/v2", summary="The server", response_model=ServerInfo, responses=refusals())
async def metadata() -> Response:
    """Its name and version."""
    return as_json({"name": "trimtab", "version": trimtab.__version__, "extensions": []})


@router.get("/v2/models/{stream}", summary="A stream as a model", response_model=ModelInfo, responses=refusals(404))
async def model(service: TheService, stream: Stream) -> Response:
    """Its inputs and outputs, as the route `features` takes and gives them."""
    tenant = service.hub.get(stream)
    dim = (await service.in_thread(service.encoders.get, tenant.settings.encoder)).encoder.dim
    tensors = {
        "inputs": [{"name": "features", "datatype": "FP32", "shape": [-1, tenant.settings.views, dim]}],
        "outputs": [{"name": "probabilities", "datatype": "FP32", "shape": [-1, len(tenant.settings.labels)]}],
    }
    version = str((await service.in_thread(tenant.summary))["version"] or 0)
    return as_json({"name": stream, "versions": [version], "platform": "trimtab", **tensors})


@router.get("/v2/models/{stream}/ready", summary="Is a stream there?", response_model=Ready, responses=refusals(404))
async def model_ready(service: TheService, stream: Stream) -> Response:
    """A stream is ready if there is one of that name."""
    service.hub.get(stream)
    return as_json({"name": stream, "ready": True})


@router.get(
    "/metrics",
    summary="For Prometheus",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}, "description": "Prometheus' text format."}, **refusals()},
)
async def metrics(service: TheService) -> Response:
    """Requests, seconds, images, batches, and each stream's figures."""
    page = await service.in_thread(service.metrics.page)
    return Response(page, media_type="text/plain; version=0.0.4; charset=utf-8")
