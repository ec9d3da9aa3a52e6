"""Kill a server under load, start it again, and compare every answer and every state with a run that nobody stopped.

    python -m tests.audit.serve_kills --count 200 --seed 0

The real command, `trimtab serve`, four streams (MCP, Keel and TDA with a guard, MCP without), eight clients. Each
client sends an image until it is answered, with the same idempotency key. SIGKILL hits at random moments: while the
server starts and recovers, while it answers, while it writes checkpoints. In the end every image must have been taken
in once, and answers and states must be those of streams that stepped through the images in that order, bit for bit.

Prints its counts; the exit code is 1 if an image was lost or doubled, a bit differs, or something hung.
"""

import argparse
import random
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.audit.kill_processes import LOG, Run
from tests.audit.serve_server import FEATURES, STREAMS, TASK, Clients, free_port, settings_of, start_server
from trimtab.serve import Hub, StreamSettings
from trimtab.stream import Stream

KILLS_PER_CASE = 50
LONGEST_LIFE = 1.5  # seconds from the start of a server to its end; a start takes about a third of that
SECONDS_TO_START = 60
SECONDS_TO_END = 120
BAD = ("lost", "doubled", "other answers", "other states", "hangs", "tracebacks")


class ServeKills:
    """Counts what becomes of servers that are killed."""

    def __init__(self, place: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._place, self._random = place, random.Random(seed)
        _warm_up(place / "warm")

    @property
    def bad(self) -> int:
        return sum(self.counts[kind] for kind in BAD)

    def run(self, count: int) -> None:
        """Cases of some kills each, until there were `count`."""
        while self.counts["kills"] < count and not self.counts["hangs"]:
            self._case(min(KILLS_PER_CASE, count - self.counts["kills"]))

    def report(self) -> str:
        """The counts, and what went wrong."""
        bad = ", ".join(f"{self.counts[kind]} {kind}" for kind in BAD)
        lines = [
            f"{self.counts['kills']} kills ({self.counts['early']} of them before the server was ready) in "
            f"{self.counts['cases']} cases,",
            f"{self.counts['images']} images answered: {bad}",
        ]
        return "\n".join([*lines, *self.troubles])

    def _case(self, kills: int) -> None:
        folder = self._place / f"case-{self.counts['cases']}"
        folder.mkdir()
        self.counts["cases"] += 1
        port = free_port()
        _make_streams(folder / "streams")
        clients = Clients(folder, port)
        try:
            for _ in range(kills):
                server = start_server(folder, port)
                time.sleep(self._random.uniform(0, LONGEST_LIFE))
                self.counts["early"] += not _answers(port)
                self.counts["kills"] += 1
                _end(server, signal.SIGKILL)
            server = start_server(folder, port)
            if not _ready(port):
                return self._trouble("hangs", "the server did not start again", folder)
            answers = clients.finish(SECONDS_TO_END)
            if answers is None:
                return self._trouble("hangs", "the clients did not get their answers", folder)
            _end(server, signal.SIGKILL)
        finally:
            clients.kill()
        if "Traceback" in (folder / LOG).read_text():
            self._trouble("tracebacks", (folder / LOG).read_text()[-2000:], folder)
        self._compare(folder, answers)
        shutil.rmtree(folder, ignore_errors=True)

    def _compare(self, folder: Path, answers: list[dict[str, Any]]) -> None:
        self.counts["images"] += len(answers)
        with Hub.open(folder / "streams") as hub:
            for name in STREAMS:
                mine = sorted((each for each in answers if each["stream"] == name), key=lambda each: each["seen"])
                tenant = hub.get(name)
                seen = tenant.health()["seen"]
                places = [each["seen"] for each in mine]
                if seen < len(mine):
                    self._trouble("lost", f"{name}: {len(mine)} answered, {seen} known", folder)
                if seen > len(mine) or len(set(places)) < len(places):
                    self._trouble("doubled", f"{name}: {len(mine)} answered, {seen} known", folder)
                if places == list(range(1, seen + 1)):
                    self._compare_bits(name, mine, tenant, folder)

    def _compare_bits(self, name: str, answers: list[dict[str, Any]], tenant: Any, folder: Path) -> None:
        """Step through the images in the order in which they were taken in."""
        chosen = StreamSettings.from_dict(settings_of(name))
        stream = Stream(chosen.make_method(), TASK, chosen.make_guard())
        for each in answers:
            expected = stream.step(FEATURES[each["image"]]).probabilities
            if [each["scores"][label] for label in TASK.class_names] != [float(value) for value in expected]:
                given = [each["scores"][label] for label in TASK.class_names]
                apart = max(abs(a - float(b)) for a, b in zip(given, expected, strict=True))
                return self._trouble("other answers", f"{name}: image {each['id']}, by up to {apart:.2g}", folder)
        with tenant._awake() as ledger:
            found = ledger.memory.arrays()
            wrong = [part for part, array in stream.arrays().items() if array.tobytes() != found[part].tobytes()]
        if wrong:
            self._trouble("other states", f"{name}: {', '.join(wrong)}", folder)

    def _trouble(self, kind: str, what: str, folder: Path) -> None:
        self.counts[kind] += 1
        self.troubles.append(f"{folder.name}: {kind}: {what}")


def _make_streams(folder: Path) -> None:
    with Hub.open(folder) as hub:
        for name in STREAMS:
            hub.create(StreamSettings.from_dict(settings_of(name)), TASK.text_prototypes, TASK.logit_scale)


def _warm_up(folder: Path) -> None:
    """Import and compile here what every server would have to."""
    import trimtab.serve.assembly
    import trimtab.serve.client
    import trimtab.serve.running  # noqa: F401
    from trimtab.cli import serve  # noqa: F401
    from trimtab.serve import Request

    _make_streams(folder)
    with Hub.open(folder) as hub:
        for name in STREAMS:
            hub.get(name).classify([Request(image) for image in FEATURES[:70]])
            hub.get(name).classify([Request(FEATURES[0], learn=False)])


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def _ready(port: int) -> bool:
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end:
        if _answers(port):
            return True
        time.sleep(0.02)
    return False


def _end(server: Run, number: int) -> None:
    if server.code is None and not server.ended_within(0):
        server.send(number)
        server.ended_within(SECONDS_TO_END)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.serve_kills", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="kills")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-serve-kills-") as place:
        audit = ServeKills(Path(place), options.seed)
        audit.run(options.count)
    print(audit.report())
    return 1 if audit.bad else 0


if __name__ == "__main__":
    sys.exit(main())
