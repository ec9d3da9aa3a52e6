"""Assembly: from a configuration to an app that is ready to serve."""

from pathlib import Path

import numpy as np
from fastapi import FastAPI

from trimtab import encoders
from trimtab.encoders.base import Encoder
from trimtab.errors import TrimtabError
from trimtab.serve.access import Access
from trimtab.serve.app import make_app
from trimtab.serve.config import ServerConfig
from trimtab.serve.hub import Hub
from trimtab.serve.logs import log
from trimtab.serve.metrics import Metrics
from trimtab.serve.pool import EncoderPool
from trimtab.serve.records import Request
from trimtab.serve.service import Service
from trimtab.serve.settings import StreamSettings

DEFAULT_ENCODER = "lite"


def assemble(config: ServerConfig, access: Access) -> FastAPI:
    """Lock the folder, load the encoders, make the streams that are missing; one sentence says what is wrong."""
    hub = Hub.open(
        _usable(config.folder),
        memory=config.memory_megabytes << 20,
        awake=config.awake,
        idle=float(config.idle_seconds),
    )
    try:
        metrics = Metrics()
        named = [*config.encoders, *(stream.encoder for stream in config.streams)] or [DEFAULT_ENCODER]
        pool = EncoderPool(
            lambda name: encoders.load_encoder(name, device=config.device, precision=config.precision),
            allowed=dict.fromkeys(named),
            limits=config.limits,
            told=metrics.batch,
            on_cpu=config.device == "cpu",
        )
        for name in pool.allowed:
            _warm_up(pool.get(name).encoder)
        app = make_app(
            hub,
            pool,
            access=access,
            limits=config.limits,
            metrics=metrics,
            studio=config.label_studio,
            page=config.page,
        )
        for settings in config.streams:
            _make_or_continue(app.state.service, settings)
        _warm_up_methods(hub, pool)
    except BaseException:
        hub.close()
        raise
    return app


def _usable(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise TrimtabError(f"{folder} is a file; give the name of a folder.")
    return folder


def _warm_up(encoder: Encoder) -> None:
    """The first picture is not the one that waits for models to be read."""
    encoder.encode_images(np.zeros((1, encoder.input_size, encoder.input_size, 3), np.uint8))


def _warm_up_methods(hub: Hub, pool: EncoderPool) -> None:
    """Nor for loops to be compiled, seconds once: a stream of each method looks at a text, without a trace."""
    by_method = {hub.get(name).settings.method: hub.get(name) for name in hub.names()}
    for tenant in by_method.values():
        if tenant.settings.encoder not in pool.allowed:
            continue
        text, _ = pool.text(tenant.settings)
        try:
            tenant.classify([Request(text[:1], learn=False)])
        except TrimtabError as error:  # whoever asks for it hears of it; the other streams are served
            log.warning("the stream %s cannot be used: %s", tenant.name, error)


def _make_or_continue(service: Service, settings: StreamSettings) -> None:
    if settings.name not in service.hub.names():
        service.add(settings)
        return
    kept = service.hub.get(settings.name).settings
    for name, value in settings.to_dict().items():
        if kept.to_dict()[name] != value:
            raise TrimtabError(
                f"The stream {settings.name!r} in {service.hub.folder} was made with another value of {name}; "
                "choose another --name, or delete the stream."
            )
