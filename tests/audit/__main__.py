"""`make audit`: bad inputs, damaged files and kills, each of which prints its counts; about an hour in all."""

import argparse
import subprocess
import sys


def main() -> int:
    """Run the audits, one after the other; 1 if one of them has found a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description="Bad inputs, damaged files and kills.")
    parser.add_argument("--fuzz", type=int, default=10_000, metavar="COUNT", help="damaged files and wrong arguments")
    parser.add_argument("--kills", type=int, default=1000, metavar="COUNT", help="processes killed")
    parser.add_argument("--serve-kills", type=int, default=200, metavar="COUNT", help="servers killed under load")
    counts = parser.parse_args()
    audits = {
        "tests.audit.bad_inputs": [],
        "tests.audit.fuzz": ["--count", str(counts.fuzz)],
        "tests.audit.kills": ["--count", str(counts.kills)],
        "tests.audit.serve_fuzz": ["--count", str(counts.fuzz)],
        "tests.audit.serve_schema": ["--cases", str(counts.fuzz // 5)],
        "tests.audit.serve_kills": ["--count", str(counts.serve_kills)],
        "tests.audit.cold_start": [],
    }
    failed = [
        name
        for name, options in audits.items()
        if subprocess.run([sys.executable, "-m", name, *options], check=False).returncode
    ]
    print(f"audits: {len(audits)}, with faults: {len(failed)} {' '.join(failed)}".rstrip())
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
