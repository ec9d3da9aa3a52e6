"""`make audit`: bad inputs, damaged files and kills, each of which prints its counts; about an hour in all."""

import subprocess
import sys
from importlib.util import find_spec

AUDITS = ("tests.audit.bad_inputs", "tests.audit.fuzz", "tests.audit.kills")

if __name__ == "__main__":
    found = [name for name in AUDITS if find_spec(name) is not None]
    failed = [name for name in found if subprocess.run([sys.executable, "-m", name], check=False).returncode]
    print(f"audits: {len(found)}, with faults: {len(failed)} {' '.join(failed)}".rstrip())
    sys.exit(bool(failed))
