"""What can go wrong with a cluster, each caused for real: `python -m tests.audit.cluster_faults [WORDS]`.

Every case runs the real command in a process of its own, and must end with exit code 2 and one sentence that holds the
expected words, within its time. Takes about two minutes. Its figures are in docs/audit.md.
"""

import contextlib
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

MOST_SECONDS = 90  # of a command; those that try again take longest


@dataclass(frozen=True)
class Case:
    """A command that must be refused, and how."""

    name: str
    options: list[str]  # of `trimtab encode`
    words: str  # a pattern that the sentence must have
    environment: dict[str, str] = field(default_factory=dict)
    before: Callable[[Path], object] = lambda _: None


def photos(root: Path) -> None:
    """A few pictures of two classes."""
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        folder = root / "photos" / name
        folder.mkdir(parents=True)
        for number in range(4):
            Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(folder / f"{number}.png")


@contextlib.contextmanager
def silent_listener() -> Iterator[str]:
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def bucket() -> Iterator[dict[str, str]]:
    """A bucket on this machine, and the settings of a user who may not use it."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it prints every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    own = {"endpoint_url": f"http://{host}:{port}", "region_name": "us-east-1"}
    root = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    try:
        boto3.client("s3", **own, **root).create_bucket(Bucket="trim")
        users = boto3.client("iam", **own, **root)
        users.create_user(UserName="guest")
        key = users.create_access_key(UserName="guest")["AccessKey"]
        ask = urllib.request.Request(f"http://{host}:{port}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
        urllib.request.urlopen(ask).close()  # rights are asked for from now on
        yield {
            "AWS_ENDPOINT_URL": own["endpoint_url"],
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.stop()


def half_written(root: Path) -> None:
    """A store that another run has begun, with two views."""
    ran = run(root, ["-o", "out", "--views", "2", "--shard", "1/3", "--shard-images", "2"], {})
    assert ran.returncode == 0, ran.stderr


def other_version(root: Path) -> dict[str, str]:
    """Settings under which workers find a trimtab of another version; the driver takes no notice of them."""
    folder = root / "other"
    folder.mkdir()
    patch = "import sys\nif any('default_worker' in word for word in getattr(sys, 'orig_argv', [])):\n"
    (folder / "sitecustomize.py").write_text(f"{patch}    import trimtab\n    trimtab.__version__ = '9.9.9'\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def run(root: Path, options: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`trimtab encode` of the pictures."""
    command = [sys.executable, "-m", "trimtab", "encode", "photos", *options]
    settings = {**os.environ, **environment}
    return subprocess.run(
        command, cwd=root, env=settings, check=False, capture_output=True, text=True, timeout=MOST_SECONDS
    )


def cases(root: Path, address: str, s3: dict[str, str]) -> list[Case]:
    """All of them."""
    on_ray = ["-o", "out", "--engine", "ray"]
    no_ray = root / "no-ray"
    no_ray.mkdir()
    (no_ray / "ray.py").write_text("raise ImportError('hidden')\n")
    hidden = {"PYTHONPATH": os.pathsep.join([str(no_ray), os.environ.get("PYTHONPATH", "")])}
    low = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "100", "RAY_task_oom_retries": "1"}
    return [
        Case("no Ray", on_ray, r"needs the package ray; run: pip install 'trimtab\[cluster\]'", hidden),
        Case("a dead address", [*on_ray, "--address", "127.0.0.1:9"], r"no Ray cluster at 127.0.0.1:9"),
        Case("an address that says nothing", [*on_ray, "--address", address], rf"no Ray cluster at {address}"),
        Case("a store half-written by another run", on_ray, r"out .*views", before=half_written),
        Case("another version on workers", on_ray, r"has trimtab 9\.9\.9, not .*the same on all", other_version(root)),
        Case(
            "a bucket without rights",
            ["-o", "s3://trim/out", "--engine", "ray"],
            "may not be read or written with these credentials",
            s3,
        ),
        Case("a node with no memory left", on_ray, "A node has no memory left for this work", low),
    ]


def fault(ran: subprocess.CompletedProcess[str], case: Case) -> str:
    """What is wrong with how a command was refused; nothing, if nothing is."""
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    if ran.returncode != 2:
        return f"exit code {ran.returncode}"
    if len(lines) != 1:
        return f"{len(lines)} lines"
    return "" if re.search(case.words, lines[0]) else "other words"


def main(wanted: list[str]) -> int:
    """Print what each case is told; 1 if one of them is told anything else."""
    faults = count = 0
    with tempfile.TemporaryDirectory() as temporary, silent_listener() as address, bucket() as s3:
        for case in cases(Path(temporary), address, s3):
            if not all(word in case.name for word in wanted):
                continue
            root = Path(tempfile.mkdtemp(dir=temporary))
            photos(root)
            case.before(root)
            start = time.perf_counter()
            ran = run(root, case.options, case.environment)
            wrong = fault(ran, case)
            faults, count = faults + bool(wrong), count + 1
            shown = ran.stderr.strip() if wrong else ran.stderr.strip().splitlines()[0]
            print(f"{case.name}: {wrong or 'ok'}, {time.perf_counter() - start:.1f} s\n    {shown}", flush=True)
    print(f"faults of a cluster: {count}, wrongly told: {faults}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
