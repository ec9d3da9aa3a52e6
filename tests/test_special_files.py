"""Pipes, devices, folders and loops where a file is meant: refused in one place, before anything hangs or is lost."""

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.bench_stores import make_store
from trimtab import MCP, Stream
from trimtab.checks import random_stream
from trimtab.errors import TrimtabError
from trimtab.features import FeatureWriter
from trimtab.files import FileLock, refuse_special, write_together, write_whole
from trimtab.images.decode import decode
from trimtab.study.outputs import write_outputs
from trimtab.study.tune import tune

SPECIAL = "exists and is not a regular file"


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize(
    "use",
    [
        refuse_special,
        FileLock,
        decode,
        lambda path: write_whole(path, b"new"),
        lambda path: write_outputs({path: b"new"}, overwrite=True),
    ],
    ids=["refuse_special", "FileLock", "decode", "write_whole", "write_outputs"],
)
def test_a_pipe_is_refused_and_stays_alone(pipe, use):
    with pytest.raises(TrimtabError, match=SPECIAL):
        use(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(pipe.parent.iterdir()) == [pipe]


def test_a_state_is_neither_read_from_a_pipe_nor_written_to_one(pipe):
    task, _ = random_stream(classes=3, dim=8, views=1, images=2, seed=0)
    stream = MCP().start(task)
    with pytest.raises(TrimtabError, match=SPECIAL):
        stream.save(pipe)
    with pytest.raises(TrimtabError, match=SPECIAL):
        Stream.load(pipe, task)


def test_a_link_that_leads_to_itself_is_one_sentence(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(TrimtabError, match="loop cannot be written: Too many levels"):
        FileLock(loop)
    with pytest.raises(TrimtabError, match="loop cannot be written: Too many levels"):
        write_outputs({loop: b"new"})
    with pytest.raises(TrimtabError, match="loop cannot be read: Too many levels"):
        decode(loop)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_place_where_no_file_can_be_made_is_not_called_another_processs():
    with pytest.raises(TrimtabError, match=r"^/proc/x\.csv cannot be written: No such file or directory\.$"):
        FileLock(Path("/proc/x.csv"))


def test_a_search_has_its_journal_to_itself(tmp_path):
    store = make_store(tmp_path / "store")
    journal = tmp_path / "t.journal"
    lock = FileLock(journal)
    with pytest.raises(TrimtabError, match="Another process is using"):
        tune(store.path, "tda", trials=1, journal=journal)
    assert not journal.exists()
    lock.release(remove=True)
    tune(store.path, "tda", trials=1, journal=journal)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_features_that_are_not_those_of_their_checksums_are_not_searched(tmp_path):
    store = make_store(tmp_path / "store")
    shard = next(path for path in sorted(store.path.glob("*.npy")) if path.name != "text.npy")
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(TrimtabError, match="was changed after it was written"):
        tune(store.path, "tda", trials=1)


def test_a_folder_that_is_not_a_store_is_left_as_it_was(tmp_path):
    store = make_store(tmp_path / "store")
    other = tmp_path / "other"
    other.mkdir()
    for name in ("photo.jpg", ".mine.part"):
        (other / name).write_text("mine")
    with pytest.raises(TrimtabError, match="is not empty and not a feature store"):
        FeatureWriter(other, store.info, store.task().text_prototypes)
    assert sorted(path.name for path in other.iterdir()) == [".mine.part", "photo.jpg"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("at", range(9))
def test_files_that_belong_together_are_never_old_and_new(tmp_path, monkeypatch, at):
    """A kill before any of the changes of the disk that the writing makes."""
    paths = [tmp_path / name for name in ("a.md", "b.tex", "c.html")]
    write_together(dict.fromkeys(paths, b"old"))
    changes = iter(range(20))

    def dying(change):
        def changed(*given, **options):
            if next(changes) == at:
                os._exit(9)
            return change(*given, **options)

        return changed

    process = os.fork()
    if not process:
        try:
            for name in ("replace", "unlink"):
                monkeypatch.setattr(Path, name, dying(getattr(Path, name)))
            write_together(dict.fromkeys(paths, b"new"))
        finally:
            os._exit(next(changes))
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code == (9 if at < 8 else 8)  # two removed, three renamed, three temporary names looked for
    there = [path.read_bytes() for path in paths if path.exists()]
    assert set(there) in ({b"old"}, {b"new"})
    write_together(dict.fromkeys(paths, b"new"))
    assert [path.read_bytes() for path in paths] == [b"new"] * 3


def test_files_that_belong_together_stay_old_on_a_full_disk(tmp_path):
    paths = [tmp_path / "a.md", tmp_path / "b.tex"]
    write_outputs(dict.fromkeys(paths, b"Made by trimtab: old"))
    long = tmp_path / ("x" * 300)  # cannot be written
    with pytest.raises(TrimtabError, match=r"x cannot be (read|written)"):
        write_outputs({**dict.fromkeys(paths, b"new"), long: b"new"}, overwrite=True)
    assert [path.read_bytes() for path in paths] == [b"Made by trimtab: old"] * 2
    assert len(list(tmp_path.iterdir())) == 2
