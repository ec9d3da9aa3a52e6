"""The journal: groups wholly or not at all, torn ends cut off, damage refused, full disks survived."""

import errno
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.errors import TrimtabError
from trimtab.serve import journal as module
from trimtab.serve.journal import FRAME, HEADER, Journal
from trimtab.serve.refusals import Damaged

GROUPS = [[b"a"], [b"bb", b"", b"c" * 40], [b"dddd"], [b"e" * 7, b"f"]]


def written(folder, groups=GROUPS, fsync="never"):
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, fsync)
    assert list(journal.replay(0)) == []
    for group in groups:
        journal.append(group)
    journal.close()
    return journal


def read(folder, start=0):
    journal = Journal(folder)
    entries = [entry for _, entry in journal.replay(start)]
    return entries, journal


def entries_of(groups):
    return [entry for group in groups for entry in group]


def ends_of(groups):
    """The file's size after each group."""
    ends = [HEADER.size]
    for group in groups:
        ends.append(ends[-1] + FRAME.size + sum(4 + len(entry) for entry in group))
    return ends


def test_what_was_written_is_read_from_any_entry_on(tmp_path):
    written(tmp_path)
    everything = entries_of(GROUPS)
    for start in range(len(everything) + 1):
        entries, journal = read(tmp_path, start)
        assert entries == everything[start:]
        assert journal.next == len(everything)


@settings(max_examples=30, deadline=None)
@given(groups=st.lists(st.lists(st.binary(max_size=50), min_size=1, max_size=4), max_size=6), data=st.data())
def test_a_journal_that_ends_anywhere_holds_the_groups_before_and_goes_on(tmp_path_factory, groups, data):
    folder = tmp_path_factory.mktemp("journal")
    written(folder, groups)
    ends = ends_of(groups)
    size = data.draw(st.integers(0, ends[-1]))
    (path,) = folder.glob("*.journal") if groups else [None]
    if path is None:
        return
    os.truncate(path, size)
    whole = groups[: sum(end <= size for end in ends[1:])]
    entries, journal = read(folder)
    assert entries == entries_of(whole)
    assert journal.cut == size - max([end for end in ends if end <= size], default=0)
    journal.append([b"more"])
    journal.close()
    assert read(folder)[0] == [*entries_of(whole), b"more"]


def test_every_changed_byte_before_the_last_group_is_refused_and_none_is_believed(tmp_path):
    written(tmp_path)
    (path,) = tmp_path.glob("*.journal")
    content = path.read_bytes()
    last = ends_of(GROUPS)[-2]
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        if place < last:
            with pytest.raises(TrimtabError) as refusal:
                read(tmp_path)
            assert str(path) in str(refusal.value)
        else:
            assert read(tmp_path)[0] == entries_of(GROUPS[:-1]), "a bad last group is one that was never finished"


def test_segments_follow_each_other_and_old_ones_go(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_BYTES", 100)
    groups = [[bytes([n]) * 30] for n in range(20)]
    journal = written(tmp_path, groups)
    paths = sorted(tmp_path.glob("*.journal"))
    assert len(paths) > 5
    assert read(tmp_path)[0] == entries_of(groups)
    journal.drop_before(9)
    assert int(min(tmp_path.glob("*.journal")).stem) <= 9
    assert read(tmp_path, 9)[0] == entries_of(groups)[9:]
    with pytest.raises(Damaged, match=r"lacks entries 0 to \d"):
        read(tmp_path)
    middle = sorted(tmp_path.glob("*.journal"))[2]
    middle.unlink()
    with pytest.raises(Damaged, match="lacks entries"):
        read(tmp_path, 9)


def test_a_torn_end_is_cut_off_only_at_the_journals_end(tmp_path):
    journal = written(tmp_path)
    journal.roll()
    journal.append([b"next"])
    journal.close()
    first, _ = sorted(tmp_path.glob("*.journal"))
    os.truncate(first, ends_of(GROUPS)[-1] - 1)
    with pytest.raises(Damaged, match="damaged at byte"):
        read(tmp_path)


@pytest.mark.parametrize(("policy", "flushes"), [("always", 1 + 7), ("group", 1 + 4), ("never", 0)])
def test_each_policy_flushes_as_it_says(tmp_path, monkeypatch, policy, flushes):
    calls = []
    monkeypatch.setattr(module, "_sync", calls.append)
    written(tmp_path, fsync=policy)
    assert len(calls) == flushes  # the first is of the header
    assert read(tmp_path)[0] == entries_of(GROUPS)


@pytest.mark.parametrize("fault", ["write", "flush"])
def test_a_group_that_cannot_be_written_leaves_no_trace(tmp_path, monkeypatch, fault):
    journal = written(tmp_path)
    journal._policy = "group"
    list(journal.replay(0))
    real = os.write

    def half(file, content):
        real(file, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if fault == "write":
            patch.setattr(module.os, "write", half)
        else:
            patch.setattr(module, "_sync", lambda _: half(journal._file, b""))
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                journal.append([b"lost", b"too"])
    assert journal.next == 7
    journal.append([b"kept"])
    journal.close()
    assert read(tmp_path)[0] == [*entries_of(GROUPS), b"kept"]


def test_where_not_even_the_trace_can_be_removed_a_new_file_takes_over(tmp_path, monkeypatch):
    journal = written(tmp_path)
    journal._policy = "group"
    list(journal.replay(0))

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_sync", fail)
        patch.setattr(module.os, "ftruncate", fail)
        with pytest.raises(OSError, match="Input/output"):
            journal.append([b"written but not acknowledged"])
    journal.append([b"kept"])
    journal.close()
    assert read(tmp_path)[0] == [*entries_of(GROUPS), b"kept"]


def test_a_newer_version_and_a_foreign_file_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "VERSION", 99)
    written(tmp_path)
    monkeypatch.undo()
    with pytest.raises(TrimtabError, match="version 99, and this trimtab reads up to 1"):
        read(tmp_path)
    (path,) = tmp_path.glob("*.journal")
    path.write_bytes(b"something else, and long enough to be a header of a journal")
    with pytest.raises(Damaged, match="does not begin as"):
        read(tmp_path)
    path.rename(tmp_path / "notes.journal")
    with pytest.raises(Damaged, match="no name"):
        read(tmp_path)
