"""Bad inputs on the command line, the quick ones: `make audit` has them all (see tests/audit/bad_inputs)."""

import pytest

from tests.audit.bad_inputs.case import Case, all_cases
from tests.audit.bad_inputs.judge import Outcome, Places

VERBS = {case.verb for case in all_cases()}
PER_VERB = 10  # spread over the verb's cases
PROCESSES = 6


def _spread(cases: list[Case], count: int) -> list[Case]:
    return cases[:: max(1, len(cases) // count)][:count]


def _quick() -> list[Case]:
    """Some cases of every verb, and some that need a process of their own."""
    quick = [case for case in all_cases() if not case.slow and not case.leaves and not case.owner]
    here = [case for case in quick if not case.needs_process]
    chosen = [case for verb in sorted(VERBS) for case in _spread([c for c in here if c.verb == verb], PER_VERB)]
    return chosen + _spread([case for case in quick if case.needs_process and case.verb == "trimtab"], PROCESSES)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("audit"))


@pytest.mark.parametrize("case", _quick(), ids=str)
def test_a_bad_input_gets_one_sentence(case, places):
    assert places.run(case).faults(case) == {}


def test_every_verb_has_bad_inputs_and_no_two_are_the_same():
    from trimtab.cli.main import VERBS as OF_THE_COMMAND

    assert set(OF_THE_COMMAND) <= VERBS
    assert len(all_cases()) >= 230
    assert len({str(case) for case in all_cases()}) == len(all_cases())


@pytest.mark.parametrize(
    ("outcome", "kinds"),
    [
        (Outcome(2, "", "trimtab: There is no method 'x'."), set()),
        (Outcome(1, "", "Traceback (most recent call last):\nKeyError: 'x'"), {"traceback", "code", "sentence"}),
        (Outcome(120, "", "Exception ignored in: stdout\nOSError: full\nThere is no method"), {"traceback", "code"}),
        (Outcome(0, "", ""), {"code", "sentence"}),
        (Outcome(2, "There is no method", ""), {"sentence"}),
        (Outcome(2, "", "There is no method\n" * 5), {"sentence"}),
        (Outcome(2, "", "There is no method", ("r/plan.json", "r")), {"leftovers"}),
        (Outcome(2, "", "There is no method", ("kept/a",)), set()),
    ],
)
def test_the_judge_sees_what_is_wrong(outcome, kinds):
    case = Case(verb="methods", run="methods x", says="There is no method", leaves=("kept/*",))
    assert set(outcome.faults(case)) == kinds
