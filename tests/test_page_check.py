"""Check fifty: who is drawn, what is kept, and what the labels say."""

import pytest

from trimtab.errors import TrimtabError
from trimtab.serve.page.check import Candidate, Checks, draw


def frame(others, flips):
    return [Candidate(f"0-{n}", n + 1, "cat", "cat") for n in range(others)] + [
        Candidate(f"0-{others + n}", others + n + 1, "cat", "dog") for n in range(flips)
    ]


def drawn(others, flips, size=50, seed=1):
    return draw(frame(others, flips), 0.0, seed, size)


@pytest.mark.parametrize(
    ("others", "flips", "expected_flips", "expected"),
    [(200, 56, 25, 50), (250, 6, 6, 50), (10, 246, 40, 50), (20, 10, 10, 30), (0, 70, 50, 50), (70, 0, 0, 50)],
)
def test_half_are_flips_and_either_kind_fills_in(others, flips, expected_flips, expected):
    check = drawn(others, flips)
    ids = [asked.candidate.id for asked in check.asked]
    assert len(ids) == len(set(ids)) == expected
    assert sum(asked.candidate.flip for asked in check.asked) == expected_flips
    assert (check.frame, check.flips) == (others + flips, flips)


def test_every_image_is_drawn_equally_often():
    counts = dict.fromkeys(range(40), 0)
    for seed in range(400):
        for asked in drawn(30, 10, size=12, seed=seed).asked:
            counts[asked.candidate.position - 1] += 1
    assert all(50 < counts[n] < 115 for n in range(30))  # 6 of 30 in each of 400 draws: 80 expected
    assert all(190 < counts[n] < 290 for n in range(30, 40))  # 6 of 10: 240 expected


def test_figures_weigh_the_two_kinds_by_their_share():
    check = drawn(192, 64)  # 25 of 192 and 25 of 64
    for index, asked in enumerate(check.asked):
        check.say(index, "cat" if asked.candidate.flip else "dog")  # adapting is right on flips, all others are wrong
    result = check.result()
    assert result.adapted.middle == pytest.approx(0.25)
    assert result.zero_shot.middle == 0
    assert result.gain.middle == pytest.approx(0.25)
    assert result.gain.low > 0.15
    assert result.zero_shot.high < 0.2


def test_none_of_the_classes_is_an_answer_and_unclear_is_not():
    check = drawn(5, 5)
    for index, asked in enumerate(check.asked):
        if index == 0:
            check.say(index, "", unclear=True)
        else:
            check.say(index, "" if index == 1 else asked.candidate.answer)
    assert (check.result().labeled, check.result().unclear) == (9, 1)
    assert len(check.labels()) == 8  # what shows no class teaches none
    assert check.result().adapted.middle < 1


def test_labels_survive_a_restart(tmp_path):
    file = tmp_path / "check.json"
    checks = Checks(file, tmp_path)
    checks.start(drawn(20, 10, size=4), str.encode)
    checks.current.say(0, "cat")
    checks.save()
    again = Checks(file, tmp_path)
    assert again.picture(3) == again.current.asked[3].candidate.id.encode()
    assert again.current == checks.current
    assert again.current.next == 1
    again.current.step_back()
    assert again.current.next == 0
    for index in range(4):
        again.current.say(index, "dog")
    again.save()
    again.save()
    assert len(Checks(file, tmp_path).past) == 1
    Checks(file, tmp_path).forget_pictures()
    kept = Checks(file, tmp_path)
    assert (kept.current, kept.picture(0), len(kept.past)) == (None, None, 1)
    assert list(tmp_path.rglob("*.jpg")) == []


def test_refusals(tmp_path):
    with pytest.raises(TrimtabError, match="nothing to look at"):
        draw([], 0.0, 1)
    with pytest.raises(TrimtabError, match="left the server's store"):
        Checks(tmp_path / "new.json", tmp_path).start(drawn(3, 3), lambda _: None)
    with pytest.raises(TrimtabError, match="no image 7"):
        drawn(3, 3).say(7, "cat")
    (tmp_path / "check.json").write_text("{")
    with pytest.raises(TrimtabError, match="is damaged"):
        Checks(tmp_path / "check.json", tmp_path)
