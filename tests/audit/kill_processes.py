"""The real command in a process of its own, with a stand-in encoder, quick enough to be killed a thousand times.

A warm start forks this process, which has imported everything: the command begins at once and a kill hits its work. A
cold start is a new interpreter: a kill hits the first second as well.
"""

import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOG = "stderr.txt"  # below the folder that the command runs in
WAITING = (signal.SIGINT, signal.SIGTERM)  # until a forked process is ready for them
COLD_LOG = "cold-stderr.txt"  # of cold starts: while Python itself is starting, Ctrl-C gives a traceback of its own


class Run:
    """A command that is running, or has ended: `code` is its exit code, or minus the signal that ended it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.code: int | None = None

    def ended_within(self, seconds: float) -> bool:
        """Wait at most that long."""
        until = time.monotonic() + seconds
        while self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= until:
                return False
            else:
                time.sleep(min(0.001, max(0.0, until - time.monotonic())))
        return True

    def send(self, number: int) -> None:
        os.kill(self.pid, number)


def start(arguments: Sequence[str], folder: Path, seconds_between_saves: float, *, cold: bool) -> Run:
    """`trimtab ARGUMENTS` in that folder; what it says on standard error is added to a log there."""
    if cold:
        program = f"from tests.audit.kill_processes import command; command({seconds_between_saves})"
        with (folder / COLD_LOG).open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", program, *arguments],
                cwd=folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        process.returncode = 0  # `Run` waits for it
        return Run(process.pid)

    def work() -> None:
        sys.argv = ["trimtab", *arguments]
        command(seconds_between_saves)

    return start_function(work, folder)


def start_function(work: Callable[[], object], folder: Path) -> Run:
    """A function in a process of its own, forked from this one, with that folder as the current one."""
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # the new process shall work, not tidy up what this one has left
    # Python itself works after a fork: it renews its locks, and drops what is raised there. A signal waits until then.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITING)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return Run(pid)
    code = 1
    try:
        _take_over(folder)
        work()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:  # before the command began: it ends with an exit code of its own
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def environment() -> dict[str, str]:
    """For an interpreter that shall find these sources."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT)))}


def warm_up() -> None:
    """Import and compile here what every warm start would have to, so that a kill hits work."""
    from rich import console, progress  # noqa: F401
    from typer.testing import CliRunner

    from trimtab import classifier  # noqa: F401
    from trimtab.checks import random_stream
    from trimtab.cli.main import app
    from trimtab.data import folder  # noqa: F401
    from trimtab.data.catalog import load_dataset  # noqa: F401
    from trimtab.features import encode  # noqa: F401
    from trimtab.learn import run  # noqa: F401
    from trimtab.methods import make_method
    from trimtab.study import metrics  # noqa: F401
    from trimtab.study.bench import run_plan  # noqa: F401

    CliRunner().invoke(app, ["classify", "nowhere"])  # typer imports more when it reads options
    task, features = random_stream(classes=4, dim=28, views=1, images=8, seed=0)
    for name in ("mcp", "tda", "zero_shot"):
        stream = make_method(name).start(task)
        stream.run(features)
        stream.step(features[0])


def command(seconds_between_saves: float) -> None:
    """`trimtab` with the stand-in encoder under every name but those of files."""
    from tests.tiny_encoder import PromptedColorEncoder
    from trimtab import encoders
    from trimtab.cli import classify, main

    real = encoders.load_encoder

    def load_encoder(name: str, **options: Any) -> Any:
        return real(name, **options) if ":" in name else PromptedColorEncoder()

    encoders.load_encoder = load_encoder  # type: ignore[assignment]
    classify.SECONDS_BETWEEN_SAVES = seconds_between_saves  # type: ignore[misc]
    if "learn" in sys.argv:
        from trimtab.learn import run

        run.SECONDS_BETWEEN_SAVES = seconds_between_saves  # type: ignore[misc]
    main.run()


def _take_over(folder: Path) -> None:
    """Be a process as a shell would have started it; from here on, signals arrive."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, target in enumerate((nothing, nothing, log)):
        os.dup2(target, number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode) for n, mode in enumerate("rww"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WAITING)
