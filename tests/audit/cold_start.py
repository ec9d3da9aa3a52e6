"""Whether a process that compiles the loops gives the bits of those that load them: states of guarded streams, twice.

    python -m tests.audit.cold_start

Compiles everything anew in a folder of its own, about two minutes; the exit code is 1 if a state differs.
"""

import hashlib
import os
import subprocess
import sys
import tempfile

from trimtab import Guard, make_method
from trimtab.checks import random_stream

METHODS = ("tda", "mcp", "keel")


def print_states() -> None:
    """One line per method: a checksum of all that it and its guard have learned, in a run and then in steps."""
    task, features = random_stream(classes=30, dim=64, views=1, images=200, seed=0)
    for name in METHODS:
        stream = make_method(name).start(task, Guard())
        stream.run(features[:150])
        for views in features[150:]:
            stream.step(views)
        digest = hashlib.sha256(b"".join(array.tobytes() for _, array in sorted(stream.arrays().items())))
        print(name, digest.hexdigest())


def main() -> int:
    """Compile, load, compare."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        program = [sys.executable, "-c", "from tests.audit.cold_start import print_states; print_states()"]
        cold, warm = (subprocess.check_output(program, env=environment, text=True).splitlines() for _ in range(2))
    differ = [line.split()[0] for line, other in zip(cold, warm, strict=True) if line != other]
    print(f"states compared: {len(cold)}, other bits: {len(differ)} {' '.join(differ)}".rstrip())
    return int(bool(differ) or len(cold) != len(METHODS))


if __name__ == "__main__":
    sys.exit(main())
