"""Saved states: whole or refused, and nothing is lost."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from trimtab import MCP, Stream, Task, TrimtabError, ZeroShot
from trimtab.checks import random_stream


@pytest.fixture
def saved(tmp_path):
    task, features = random_stream(classes=5, dim=8, views=1, images=40, seed=1)
    stream = MCP(entropy_slots=3, align_slots=2).start(task)
    stream.run(features)
    path = tmp_path / "state.safetensors"
    stream.save(path)
    return path, stream, task, features


def metadata_of(path):
    length = int.from_bytes(path.read_bytes()[:8], "little")
    return json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]


def test_header_says_what_it_is(saved):
    path, stream, task, _ = saved
    header = json.loads(metadata_of(path)["trimtab"])
    assert header["format"] == "trimtab-state"
    assert header["method"] == "mcp"
    assert header["parameters"]["entropy_slots"] == 3
    assert header["class_names"] == list(task.class_names)
    assert header["task"] == task.fingerprint
    assert header["seen"] == stream.seen == 40


def test_loading_needs_no_method(saved):
    path, stream, task, _ = saved
    loaded = Stream.load(path, task)
    assert loaded.method == stream.method
    assert loaded.seen == 40


@pytest.mark.parametrize("keep", [0, 5, 100, -10])
def test_a_truncated_file_is_refused(saved, keep):
    path, _, task, _ = saved
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TrimtabError, match="not a whole saved state"):
        Stream.load(path, task)


def test_one_changed_byte_is_noticed(saved):
    path, _, task, _ = saved
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(TrimtabError, match="changed or damaged"):
        Stream.load(path, task)


def test_a_changed_parameter_is_noticed(saved):
    path, _, task, _ = saved
    metadata = metadata_of(path)
    metadata["trimtab"] = metadata["trimtab"].replace('"center_weight": 0.8', '"center_weight": 0.9')
    save_file(load_file(path), path, metadata)
    with pytest.raises(TrimtabError, match="changed or damaged"):
        Stream.load(path, task)


def test_foreign_and_newer_files_are_refused(saved):
    path, _, task, _ = saved
    save_file({"a": np.zeros(3)}, path)
    with pytest.raises(TrimtabError, match="not a state saved by trimtab"):
        Stream.load(path, task)
    save_file({"a": np.zeros(3)}, path, {"trimtab": json.dumps({"format": "trimtab-state", "version": 99})})
    with pytest.raises(TrimtabError, match="format 99"):
        Stream.load(path, task)
    with pytest.raises(TrimtabError, match="There is no saved state"):
        Stream.load(path.with_name("missing"), task)
    with pytest.raises(TrimtabError, match="is a folder; give the name of a file"):
        Stream.load(path.parent, task)


def test_another_task_is_refused(saved):
    path, _, task, _ = saved
    renamed = Task([*task.class_names[:-1], "zebra"], task.text_prototypes, task.logit_scale)
    with pytest.raises(TrimtabError, match="first difference: 'class 4' there, 'zebra' here"):
        Stream.load(path, renamed)
    with pytest.raises(TrimtabError, match="5 other classes than the 4"):
        Stream.load(path, Task(task.class_names[:-1], task.text_prototypes[:-1], task.logit_scale))
    with pytest.raises(TrimtabError, match="other text prototypes"):
        Stream.load(path, Task(task.class_names, task.text_prototypes[::-1], task.logit_scale))
    with pytest.raises(TrimtabError, match="saved by mcp"):
        Stream.load(path, task, ZeroShot())


def test_a_path_that_cannot_be_written_says_so_and_leaves_no_litter(saved, tmp_path):
    path, stream, _, _ = saved
    before = path.read_bytes()
    with pytest.raises(TrimtabError, match="cannot be written"):
        stream.save(tmp_path / "no such folder" / "state")
    (tmp_path / "taken").mkdir()
    with pytest.raises(TrimtabError, match="is a folder; give the name of a file"):
        stream.save(tmp_path / "taken")
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state.safetensors", "taken"]


def test_saving_again_replaces_the_file(saved):
    path, stream, task, features = saved
    stream.run(features)
    stream.save(path)
    assert Stream.load(path, task).seen == 80
