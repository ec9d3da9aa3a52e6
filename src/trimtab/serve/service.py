"""Service: what the interface and the page ask for, with the encoders, the streams and the limits behind it.

The event loop only waits here: decoding, encoding and everything that a stream does run in threads.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.errors import TrimtabError
from trimtab.prompts.templates import TEMPLATE_SETS
from trimtab.serve.arrivals import Arrivals
from trimtab.serve.encoding import SharedEncoder
from trimtab.serve.hub import Hub
from trimtab.serve.limits import HeldBytes, Limits, Rate, too_fast
from trimtab.serve.metrics import Metrics
from trimtab.serve.pool import EncoderPool
from trimtab.serve.problems import Problem
from trimtab.serve.records import Answer, Request
from trimtab.serve.settings import StreamSettings
from trimtab.serve.tenant import Tenant
from trimtab.serve.thumbnails import make_thumbnail
from trimtab.serve.turns import Turns

THREADS = 8  # for what streams do; each stream is written by one at a time
MOST_SENTENCES = 20_000  # that a request may have encoded: labels times templates

Rows = NDArray[np.float32]
Asked = ParamSpec("Asked")
Given = TypeVar("Given")


class Service:
    """One server's streams, and the way from pictures to answers."""

    def __init__(self, hub: Hub, encoders: EncoderPool, limits: Limits, metrics: Metrics, held: HeldBytes) -> None:
        self.hub, self.encoders, self.limits, self.metrics = hub, encoders, limits, metrics
        self.stopping = asyncio.Event()
        self.listeners = 0
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stream")
        self._turns = Turns(self._take_in, self._pool)
        self._arrivals: Arrivals | None = None
        self._quotas: dict[str, Rate] = {}
        self._checked: set[str] = set()  # streams whose encoder is the one they were made with
        metrics.watch(lambda: encoders.under_way, lambda: held.held, self._figures)

    async def in_thread(self, work: Callable[Asked, Given], *given: Asked.args, **named: Asked.kwargs) -> Given:
        """What a function gives that may wait for a disk or compute."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: work(*given, **named))

    async def on(
        self, name: str, work: Callable[Concatenate[Tenant, Asked], Given], *given: Asked.args, **named: Asked.kwargs
    ) -> Given:
        """What a method of a stream gives: `await service.on("frogs", Tenant.freeze)`."""
        return await self.in_thread(lambda: work(self.hub.get(name), *given, **named))

    async def create(self, given: Mapping[str, Any]) -> tuple[Tenant, bool]:
        """The stream that is asked for, and whether it is new; one that exists with other settings is refused."""
        return await self.in_thread(self._create, given)

    def _create(self, given: Mapping[str, Any]) -> tuple[Tenant, bool]:
        settings = StreamSettings.from_dict(given)
        self.encoders.refuse_unknown(settings.encoder)
        refuse_files(settings)
        if settings.name in self.hub.names():
            tenant = self.hub.get(settings.name)
            if tenant.settings == settings:
                return tenant, False
        return self.add(settings), True

    def add(self, settings: StreamSettings) -> Tenant:
        """Make a stream; its texts are encoded now."""
        text, scale = self.encoders.text(settings)
        self._checked.add(settings.name)
        return self.hub.create(settings, text, scale)

    async def delete(self, name: str) -> None:
        """Delete a stream and everything it has learned."""
        await self.in_thread(self.hub.delete, name)
        self._quotas.pop(name, None)
        self._checked.discard(name)
        self.metrics.forget(name)

    async def classify(
        self,
        name: str,
        pictures: Sequence[bytes],
        *,
        learn: bool = True,
        key: str | None = None,
        source: str | None = None,
    ) -> list[Answer]:
        """What a stream says of pictures, image files all of them; if one cannot be read, nothing is learned."""
        tenant = self.hub.get(name)
        self._within_quota(tenant.settings, len(pictures))
        rows = await self._encoded(tenant, pictures)
        shown: Sequence[bytes | None] = [None] * len(pictures)
        if tenant.settings.thumbnails and learn:
            shown = await self.in_thread(lambda: [make_thumbnail(picture) for picture in pictures])
        digests = _digests(key, learn, pictures)
        return await self._turns.classify(
            name,
            [
                Request(each, learn=learn, key=_key(key, n), digest=digests[n], source=source, picture=shown[n])
                for n, each in enumerate(rows)
            ],
        )

    async def classify_rows(
        self, name: str, rows: Rows, *, learn: bool = True, key: str | None = None, source: str | None = None
    ) -> list[Answer]:
        """The same for (N, V, d) features."""
        tenant = self.hub.get(name)
        self._within_quota(tenant.settings, len(rows))
        digests = _digests(key, learn, [each.tobytes() for each in rows] if key else [b""] * len(rows))
        requests = [
            Request(each, learn=learn, key=_key(key, n), digest=digests[n], source=source)
            for n, each in enumerate(rows)
        ]
        return await self._turns.classify(name, requests)

    async def close(self) -> None:
        """Finish what is under way; write everything down."""
        self.stopping.set()
        await asyncio.to_thread(self.encoders.close)
        await asyncio.to_thread(self._pool.shutdown)
        await asyncio.to_thread(self.hub.close)

    async def _encoded(self, tenant: Tenant, pictures: Sequence[bytes]) -> list[Rows]:
        settings = tenant.settings
        shared = self.encoders.loaded(settings.encoder)
        if shared is None or tenant.name not in self._checked:
            shared = await self.in_thread(self._right_encoder, tenant)
        lazy = settings.view_budget is not None
        first = shared.features(list(pictures), 1 if lazy else settings.views, settings.seed)
        found = await self._all(first, len(pictures))
        if not lazy:
            return found
        # How many views are worth it is asked one image after the other, in their order.
        for n, picture in enumerate(pictures):
            while (wanted := await self.in_thread(tenant.views_wanted, found[n])) > len(found[n]):
                (further,) = shared.features([picture], wanted, settings.seed, first=len(found[n]))
                found[n] = np.concatenate([found[n], *await self._all([further], 1)])
        return found

    async def _all(self, futures: "Sequence[Future[Rows]]", pictures: int) -> list[Rows]:
        """All results; an error says which picture it is about."""
        loop = asyncio.get_running_loop()
        if self._arrivals is None or self._arrivals.loop is not loop:
            self._arrivals = Arrivals(loop)
        arrival = self._arrivals.of
        if len(futures) == 1:
            return [await arrival(futures[0])]
        found = await asyncio.gather(*(arrival(future) for future in futures), return_exceptions=True)
        for number, each in enumerate(found, start=1):
            if isinstance(each, TrimtabError) and pictures > 1:
                raise Problem(422, f"Picture {number} of {pictures}: {each} Nothing was learned.")
            if isinstance(each, BaseException):
                raise each
        return [each for each in found if not isinstance(each, BaseException)]

    def _right_encoder(self, tenant: Tenant) -> SharedEncoder:
        """The stream's encoder; one that sees the labels otherwise than when the stream was made is refused."""
        tenant.check_text(*self.encoders.text(tenant.settings))
        self._checked.add(tenant.name)
        return self.encoders.get(tenant.settings.encoder)

    def _take_in(self, name: str, requests: Sequence[Request]) -> list[Answer]:
        answers = self.hub.get(name).classify(requests)
        learned = sum(answer.learned and not answer.replayed for answer in answers)
        self.metrics.images(name, len(answers), learned=learned, flipped=sum(answer.flipped for answer in answers))
        return answers

    def _within_quota(self, settings: StreamSettings, count: int) -> None:
        if settings.quota is None:
            return
        quota = self._quotas.setdefault(settings.name, Rate(settings.quota))
        if (wait := quota.take("", count)) > 0:
            raise too_fast(wait, f"The stream {settings.name!r} takes {settings.quota} images per minute")

    def _figures(self) -> dict[str, dict[str, float]]:
        """Of the streams that are awake; the others stay asleep."""
        found = self.hub.summaries()
        return {
            each["name"]: {"seen": float(each["seen"]), "adapting": float(each["mode"] == "adapting")}
            for each in found
            if each["awake"]
        }


def refuse_files(settings: StreamSettings) -> None:
    """A request may not have the server read files of its machine, nor keep it busy for hours."""
    templates = settings.templates
    if isinstance(templates, str) and templates not in TEMPLATE_SETS and "{" not in templates:
        raise Problem(422, f"There is no template set {templates!r}; there are {', '.join(TEMPLATE_SETS)}.")
    each = (TEMPLATE_SETS.get(templates, (templates,))) if isinstance(templates, str) else templates
    if len(each) * len(settings.labels) > MOST_SENTENCES:
        raise Problem(
            422,
            f"{len(settings.labels):,} labels in {len(each)} templates are too many to encode for a request; "
            "make the stream on the command line, or use fewer templates.",
        )


def _key(key: str | None, number: int) -> str | None:
    return None if key is None else f"{key}#{number}"


def _digests(key: str | None, learn: bool, bodies: Sequence[bytes]) -> list[str | None]:
    """What a repeated key must repeat: all bodies of the request, and whether they are learned."""
    if key is None:
        return [None] * len(bodies)
    whole = hashlib.blake2b(f"{len(bodies)} {learn}".encode(), digest_size=16)
    for body in bodies:
        whole.update(hashlib.blake2b(body).digest())
    return [f"{whole.hexdigest()}-{n}" for n in range(len(bodies))]
