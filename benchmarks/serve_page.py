"""Whether the page stays small and quick when a stream has seen 10,000 images: `python -m benchmarks.serve_page`.

Two streams on one server, one ten times as long as the other, in a real browser. Sizes, and the ratio of times: what a
page sends, how long until its charts stand, a freeze and a correction; and the longest time between two frames while
images come in at 50 per second.
"""

import io
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from trimtab.serve import Hub, Request, StreamSettings
from trimtab.serve.app import make_app
from trimtab.serve.limits import Limits
from trimtab.serve.pool import EncoderPool
from trimtab.serve.running import run_in_thread
from trimtab.serve.tenant import Tenant

LABELS = tuple(f"class {n}" for n in range(10))
DIM, LENGTHS, PER_SECOND, TIMES = 128, (1_000, 10_000), 50, 2
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
)
TABS = ("", "/flips", "/caches", "/snapshots", "/check")
FRAMES = """() => new Promise(done => {
    let last = performance.now(), longest = 0;
    const end = last + 4000;
    const frame = now => {
        longest = Math.max(longest, now - last);
        last = now;
        now < end ? requestAnimationFrame(frame) : done(longest);
    };
    requestAnimationFrame(frame);
})"""


class Feed:
    """Images of ten classes whose texts have strayed, so that some answers flip."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)
        self.text = self._unit(self._random.normal(size=(len(LABELS), DIM)))
        self._centers = self._unit(self.text + 0.8 * np.roll(self.text, 1, axis=0))
        self._pictures = [_jpeg(color) for color in self._random.integers(0, 255, (len(LABELS), 3))]

    def show(self, tenant: Tenant, count: int) -> None:
        for start in range(0, count, 200):
            labels = self._random.integers(len(LABELS), size=min(200, count - start))
            rows = self._unit(self._centers[labels] + 0.09 * self._random.normal(size=(len(labels), DIM)))
            tenant.classify([Request(r, picture=self._pictures[c]) for r, c in zip(rows, labels, strict=True)])

    @staticmethod
    def _unit(rows: Any) -> Any:
        return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def _jpeg(color: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((128, 128, 3), color, np.uint8)).save(file, "JPEG")
    return file.getvalue()


def _stream(hub: Hub, feed: Feed, images: int) -> Tenant:
    guard = {"gap": 0, "strange": 0}  # these features know no gap between texts and images
    settings = StreamSettings(name=f"s{images}", labels=LABELS, thumbnails=True, fsync="never", guard_parameters=guard)
    tenant = hub.create(settings, feed.text, 30.0)
    feed.show(tenant, images)
    return tenant


def _measure(page: Any, url: str, tenant: Tenant, feed: Feed) -> dict[str, float]:
    found: dict[str, float] = {}
    at = f"{url}/streams/{tenant.name}"
    for tab in TABS:
        answer = page.goto(at + tab)
        page.wait_for_timeout(300)
        found[f"KB of {tab or '/learning'}"] = len(answer.body()) / 1000
    charts, freezes, corrections = [], [], []
    for _ in range(TIMES):
        start = time.perf_counter()
        page.goto(at)
        page.wait_for_selector(".chart canvas")
        charts.append(time.perf_counter() - start)
        for wanted in ("frozen", "adapting"):
            start = time.perf_counter()
            page.click("#freeze")
            page.wait_for_selector(f"#mode.{wanted}")
            freezes.append(time.perf_counter() - start)
        page.goto(f"{at}/flips")
        card = page.locator("li.card:has(form.say)").first
        name = card.get_attribute("id")
        start = time.perf_counter()
        card.locator(".pair button").first.click()
        page.wait_for_selector(f"#{name}.corrected")
        corrections.append(time.perf_counter() - start)
    found["ms until the charts stand"] = 1e3 * fmean(charts)
    found["ms to freeze or resume"] = 1e3 * fmean(freezes)
    found["ms to correct a flip"] = 1e3 * fmean(corrections)
    page.goto(at)
    page.wait_for_selector(".chart canvas")
    stop = threading.Event()
    sender = threading.Thread(target=_send, args=(tenant, feed, stop))
    sender.start()
    found["ms, longest frame while images come"] = page.evaluate(FRAMES)
    stop.set()
    sender.join()
    return found


def _send(tenant: Tenant, feed: Feed, stop: threading.Event) -> None:
    while not stop.wait(1 / PER_SECOND):
        feed.show(tenant, 1)


def show(console: Console) -> None:
    """Measure and print the table."""
    from playwright.sync_api import sync_playwright

    browser_file = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser_file is None:
        sys.exit("There is no chromium on this machine; install it to measure the page.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        hub, feed = Hub.open(Path(folder)), Feed()
        tenants = [_stream(hub, feed, images) for images in LENGTHS]
        port, stop = run_in_thread(make_app(hub, EncoderPool(_no_encoder)), Limits())
        browser = playwright.chromium.launch(executable_path=browser_file, args=FLAGS.split())
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{port}/streams/{tenants[0].name}")  # the first visit fills caches
        page.wait_for_selector(".chart canvas")
        short, long = (_measure(page, f"http://127.0.0.1:{port}", tenant, feed) for tenant in tenants)
        browser.close()
        stop()
    table = Table(
        title="The page, by images seen",
        caption="means of two or more; in Chromium, with the server on the same machine",
    )
    for column in ("", *(f"{images:,}" for images in LENGTHS), "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for name in short:
        table.add_row(name, f"{short[name]:.1f}", f"{long[name]:.1f}", f"{long[name] / short[name]:.2f}")
    console.print(table)


def _no_encoder(name: str) -> Any:
    raise AssertionError(f"no picture is encoded here, but {name} was asked for")


if __name__ == "__main__":
    show(Console(width=100))
