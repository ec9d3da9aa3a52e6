"""Requests that schemathesis makes up from the server's own description, right ones and wrong ones.

    python -m tests.audit.serve_schema --cases 2000

Every answer must have a status that the description names for it, the type and the shape that it promises, and never be
a server error. Half of the requests are about a stream that is there. (The route of events is left out: its answer has
no end. `tests/test_serve_http.py` has it.)
"""

import argparse
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from tests.serving import SETTINGS, served

HANGS = "/v1/streams/{stream}/events"
BUSY = 503  # allowed, but counted: a made-up request should not fill the server


def audit(cases: int, seed: int = 0, where: str = "") -> tuple[Counter[int], list[str]]:
    """Send so many requests to addresses that hold `where`: how many answers had each status, and what was wrong."""
    import requests
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
    ]
    statuses: Counter[int] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as address, requests.Session() as session:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations()]
        operations = [operation for operation in operations if operation.path != HANGS and where in operation.path]
        per_mode = -(-cases // (2 * len(operations)))

        def send(case: Any) -> None:
            drawn = repr((case.path_parameters, case.query, case.body)).encode()
            if zlib.crc32(drawn) % 2:  # no coin: the same when it is tried again
                if "stream" in case.path_parameters:
                    case.path_parameters["stream"] = "one"
                session.post(f"{address}/v1/streams", json={"name": "one", **SETTINGS})
            response = case.call(session=session)
            statuses[response.status_code] += 1
            case.validate_response(response, checks=checks)

        for operation in operations:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                try:
                    strategy = operation.as_strategy(generation_mode=mode)
                    run = settings(
                        max_examples=per_mode,
                        deadline=None,
                        database=None,
                        phases=[Phase.generate],
                        suppress_health_check=list(HealthCheck),
                    )(given(case=strategy)(send))
                    seeded(seed)(run)()
                except Exception as error:  # an answer that breaks a promise, with the request that shows it
                    if type(error).__name__ != "Unsatisfiable":  # some operations take nothing that could be wrong
                        inner = " ".join(map(str, getattr(error, "exceptions", ())))
                        faults.append(f"{operation.method.upper()} {operation.path}, {mode.value}: {error} {inner}")
        alive = requests.post(f"{address}/v1/streams", json={"name": "last", **SETTINGS}, timeout=30)
        if alive.status_code not in (200, 201):
            faults.append(f"At the end the server answers {alive.status_code}.")
    return statuses, faults


def main() -> int:
    """Send them, name the faults, print the counts; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit.serve_schema")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--where", default="", help="only addresses that hold this")
    chosen = parser.parse_args()
    statuses, faults = audit(chosen.cases, chosen.seed, chosen.where)
    for fault in faults:
        print(fault, end="\n\n")
    counts = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
    print(f"made-up requests: {statuses.total()} ({counts}), faults {len(faults)}, busy {statuses[BUSY]}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
