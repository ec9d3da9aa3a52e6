"""Metrics: what Prometheus reads at /metrics."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from trimtab.serve.encoding import Batch

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
PICTURES = (1, 2, 4, 8, 16, 32, 64)

StreamFigures = dict[str, dict[str, float]]  # stream -> name of a figure -> figure


class Metrics:
    """The figures of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = self.registry
        self._requests = Counter("trimtab_requests", "Requests answered.", ("route", "method", "status"), registry=made)
        self._seconds = Histogram(
            "trimtab_request_seconds", "Time to answer.", ("route",), buckets=SECONDS, registry=made
        )
        self._images = Counter("trimtab_images", "Images answered.", ("stream", "learned"), registry=made)
        self._flips = Counter("trimtab_flips", "Answers that differ from zero-shot.", ("stream",), registry=made)
        self._batch = Histogram("trimtab_batch_pictures", "Pictures encoded together.", buckets=PICTURES, registry=made)
        self._encoding = Histogram("trimtab_batch_seconds", "Time to encode a batch.", buckets=SECONDS, registry=made)
        self._waiting = Gauge("trimtab_pictures_under_way", "Pictures being decoded or encoded.", registry=made)
        self._held = Gauge("trimtab_body_bytes_held", "Bytes of bodies being read or worked on.", registry=made)

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def images(self, stream: str, answered: int, *, learned: int, flipped: int) -> None:
        """So many images were answered, and so many of them learned or flipped."""
        for count, word in ((learned, "yes"), (answered - learned, "no")):
            if count:
                self._images.labels(stream, word).inc(count)
        if flipped:
            self._flips.labels(stream).inc(flipped)

    def batch(self, batch: Batch) -> None:
        """A batch was encoded."""
        self._batch.observe(batch.pictures)
        self._encoding.observe(batch.seconds)

    def watch(
        self, under_way: Callable[[], float], held: Callable[[], float], streams: Callable[[], StreamFigures]
    ) -> None:
        """Where to read what is a state and not an event."""
        self._waiting.set_function(under_way)
        self._held.set_function(held)
        self.registry.register(_Streams(streams))

    def forget(self, stream: str) -> None:
        """A stream was deleted."""
        for learned in ("yes", "no"):
            self._images.remove_by_labels({"stream": stream, "learned": learned})
        self._flips.remove_by_labels({"stream": stream})

    def page(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)


class _Streams(Collector):
    """Figures of the streams that are in memory, asked for when they are read."""

    def __init__(self, figures: Callable[[], StreamFigures]) -> None:
        self._figures = figures

    def collect(self) -> Iterable[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for stream, figures in self._figures().items():
            for name, figure in figures.items():
                if name not in families:
                    families[name] = GaugeMetricFamily(
                        f"trimtab_stream_{name}", f"{name} of a stream.", labels=["stream"]
                    )
                families[name].add_metric([stream], figure)
        return families.values()
