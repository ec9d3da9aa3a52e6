"""`python -m tests.audit.bad_inputs [WORD ...]`: every case (or those that hold all the words), then the counts."""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.audit.bad_inputs.case import all_cases
from tests.audit.bad_inputs.judge import Places

KINDS = {"traceback": "tracebacks", "code": "wrong codes", "sentence": "wrong sentences", "leftovers": "leftovers"}


def main(words: list[str]) -> int:
    """Run them, name the faults, print the counts; 1 if something is wrong."""
    cases = [case for case in all_cases() if all(word in f"{case.verb} {case} {case.owner}" for word in words)]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        places = Places(Path(folder).resolve())
        for case in cases:
            faults = places.run(case).faults(case)
            counts.update(faults.keys())
            counts["faulty"] += bool(faults)
            if faults:
                owner = f" [{case.owner}]" if case.owner else ""
                print(f"trimtab {case}{owner}")
                for kind, what in faults.items():
                    print(f"    {kind}: {what}")
            elif case.owner:
                print(f"trimtab {case}: all is well now; its owner {case.owner!r} can go")
    found = ", ".join(f"{name} {counts[kind]}" for kind, name in KINDS.items())
    print(f"bad inputs: {len(cases)} cases, faulty {counts['faulty']}: {found}")
    return int(counts["faulty"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
