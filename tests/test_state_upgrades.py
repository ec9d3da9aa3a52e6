"""States that an older version saved: they load, go on, and lose nothing; what fits nothing is refused."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from trimtab import Guard, Stream, Task, TrimtabError
from trimtab.engine import state_io
from trimtab.engine.equations import softmax
from trimtab.engine.state_io import VERSION, read_state
from trimtab.engine.state_upgrades import ANEW, GONE, ITEMS, LIES, NEW, NEW_OF_METHOD, SHRUNK
from trimtab.methods.keel import ASKED, FOR_TEXT, SEEN
from trimtab.serve import Request, StreamSettings, Tenant

GOLDEN = Path(__file__).parent / "golden" / "states-format-2"
NAMES = sorted(path.name.removesuffix(".safetensors.gz") for path in GOLDEN.glob("*.gz"))
GIVEN = np.load(GOLDEN / "stream.npz")
TASK = Task(["ant", "bee", "cat", "dog"], GIVEN["text"], 30.0)
IMAGES = GIVEN["images"]
WRITTEN_BY = {
    3: "661f611",
    4: "c7df8a2",
    5: "6e83dc6",
    6: "c7dcd4e",
    7: "a36119e",
    8: "03da0c7",
    9: "f66df5c",
    10: "0f825cb",
}  # commits


def old(name: str, folder: Path, golden: Path = GOLDEN) -> Path:
    path = folder / name
    path.write_bytes(gzip.decompress((golden / f"{name}.safetensors.gz").read_bytes()))
    return path


def changed(path: Path, change) -> Path:
    """The file with other arrays or another header, and a checksum that fits them."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(json.loads(file.read(length))["__metadata__"]["trimtab"])
    arrays = load_file(path)
    change(header, arrays)
    save_file(arrays, path, {"trimtab": json.dumps(header), "checksum": state_io._checksum(header, arrays)})
    return path


def bits(stream: Stream) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in stream.arrays().items()}


def test_there_are_states_of_every_kind():
    assert len(NAMES) == 9
    for method in ("mcp", "mcp_plus", "keel", "dpe"):
        assert {method, f"{method}-guard"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_older_state_keeps_all_it_holds(name, tmp_path):
    path = old(name, tmp_path)
    saved, stream = read_state(path), Stream.load(path, TASK)
    assert saved.version == 2
    assert (stream.seen, stream.note) == (saved.seen, {"from": "7a83398"})
    live = stream.arrays()
    for array_name, array in saved.arrays.items():
        kept = live[array_name][..., : array.shape[-1]]  # of a snapshot, the first of a ring
        assert np.array_equal(kept.reshape(array.shape), array), array_name
    fresh = Stream(stream.method, TASK, stream.guard).arrays()
    missing = {each for each in live.keys() - saved.arrays.keys() if not each.endswith(LIES)}
    assert all(bank.is_sound() for bank in stream.state.banks())
    for array_name in missing:
        begins = fresh[array_name.removeprefix("good.")]
        assert np.array_equal(np.broadcast_to(begins, live[array_name].shape), live[array_name]), array_name
    assert {each.removeprefix("good.") for each in missing} <= NEW | set().union(*NEW_OF_METHOD.values())


@pytest.mark.parametrize("name", NAMES)
def test_an_older_state_goes_on_and_is_saved_as_a_new_one(name, tmp_path):
    stream = Stream.load(old(name, tmp_path), TASK)
    twin, seen = stream.copy(), stream.seen
    together = stream.run(IMAGES[40:]).probabilities
    alone = np.stack([twin.step(image).probabilities for image in IMAGES[40:]])
    assert np.isfinite(together).all()
    assert np.allclose(together, alone, atol=1e-5)
    stream.save(tmp_path / "new")
    assert read_state(tmp_path / "new").version == VERSION
    again = Stream.load(tmp_path / "new", TASK)
    assert again.seen == seen + 20
    assert bits(again) == bits(stream)
    assert bits(again.copy()) == bits(stream)


@pytest.mark.parametrize("name", ["mcp", "mcp_plus", "keel"])
def test_an_older_state_answers_as_surely_as_one_that_was_never_saved(name, tmp_path):
    """The places that its running means have more do not begin at nothing, which many images would have to undo."""
    stream = Stream.load(old(name, tmp_path), TASK)
    never_saved = Stream(stream.method, TASK)
    never_saved.run(IMAGES[:40])
    ours, theirs = (
        next(array for name, array in each.arrays().items() if name.endswith("temper.figures"))
        for each in (stream, never_saved)
    )
    text = softmax(30 * IMAGES[:40] @ TASK.text_prototypes.T).max(axis=1).mean()
    assert theirs[2] == pytest.approx(text, abs=1e-3)
    assert ours[2] == pytest.approx(text, abs=0.1)
    if name == "keel":
        ours, theirs = (each.arrays()["state.reputation.figures"] for each in (stream, never_saved))
        for place in (SEEN, ASKED, FOR_TEXT):  # what the memory is worth depends on fits, which were others then
            assert ours[place] == pytest.approx(theirs[place], abs=0.05)
    sure, expected = (each.run(IMAGES[40:]).probabilities.max(axis=1).mean() for each in (stream, never_saved))
    assert sure == pytest.approx(expected, abs=0.15)  # witnesses (halves.py) begin anew: with what the text states


@pytest.mark.parametrize(
    ("version", "name"),
    [
        *((3, name) for name in ("mcp-guard", "tda-guard", "keel-guard")),
        *((4, name) for name in ("mcp-guard", "mcp_plus-guard", "keel-guard")),
        *((5, name) for name in ("mcp-guard", "mcp_plus-guard", "keel-guard", "tda-guard", "dpe-guard")),
        *((6, name) for name in ("mcp-guard", "mcp_plus-guard", "keel-guard", "tda-guard")),
        *((7, name) for name in ("mcp-guard", "keel-guard", "tda-guard")),
        *((8, name) for name in ("mcp-guard", "keel-guard", "tda-guard")),
        *((9, name) for name in ("mcp-guard", "keel-guard", "tda-guard")),
        *((10, name) for name in ("mcp-guard", "keel-guard", "tda-guard")),
    ],
)
def test_a_state_of_a_later_format_keeps_all_that_streams_still_learn(version, name, tmp_path):
    path = old(name, tmp_path, GOLDEN.parent / f"states-format-{version}")
    saved, stream = read_state(path), Stream.load(path, TASK)
    assert saved.version == version
    assert (stream.seen, stream.note, stream.guard) == (40, {"from": WRITTEN_BY[version]}, Guard())
    live = stream.arrays()
    begins = Stream(stream.method, TASK, stream.guard).arrays()
    assert all(np.array_equal(live[each], begins[each]) for each in ANEW & live.keys())
    for array_name in saved.arrays.keys() - GONE - ANEW:
        array = saved.arrays[array_name]
        kept = array[..., :-1] if version < 5 and array_name.endswith(SHRUNK) else array
        now = live[array_name]
        now = now.reshape(kept.shape) if array_name.endswith(ITEMS) else now[..., : kept.shape[-1]]
        assert np.array_equal(now, kept), array_name
    assert (saved.arrays.keys() >= GONE) == (version == 3)
    begun = {each for each in live.keys() - saved.arrays.keys() if not each.endswith(LIES)}
    begun = {each for each in begun if ".temper.level_" not in each or version == 7}
    begun -= {"state.memory.answers", "state.reputation.chance_figures"}
    begun = {each for each in begun if not each.startswith("fusion.names_")}
    if version < 5:
        begun = {each for each in begun if ".halves." not in each}
    assert all(version == 3 and each.startswith(("guard.runs.", "state.memory.habit")) for each in begun)
    assert all(bank.is_sound() for bank in stream.state.banks())
    twin = stream.copy()
    together = stream.run(IMAGES[40:]).probabilities
    alone = np.stack([twin.step(image).probabilities for image in IMAGES[40:]])
    assert np.allclose(together, alone, atol=1e-5)


def test_a_guard_keeps_its_rules_and_its_snapshot(tmp_path):
    assert Stream.load(old("mcp-guard", tmp_path), TASK).guard == Guard(fall_back=False)
    stream = Stream.load(old("mcp-snapshot", tmp_path), TASK)
    assert stream.guard == Guard(fall_back=True, snapshots=1)
    assert stream.good.taken.tolist() == [512]
    stream.good.look_back(576, stream.watch, stream._learned_arrays(), go_back=True)
    assert stream.state.temper.figures[0] == 512
    assert np.isfinite(stream.run(IMAGES[40:]).probabilities).all()


def test_a_ring_of_snapshots_knows_where_its_items_lie(tmp_path):
    stream = Stream.load(old("mcp-snapshot", tmp_path, GOLDEN.parent / "states-format-5"), TASK)
    assert stream.good.taken.tolist() == [512, -1]
    stream.good.look_back(576, stream.watch, stream._learned_arrays(), go_back=True)
    assert all(bank.is_sound() for bank in stream.state.banks())
    assert stream.state.temper.figures[0] == 511, "one image was refused"
    assert np.isfinite(stream.run(IMAGES[40:]).probabilities).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda header, arrays: arrays.pop("fusion.habit"),
        lambda header, arrays: arrays.update(more=np.zeros(3)),
        lambda header, arrays: arrays.update({"state.temper.figures": np.zeros(1)}),
        lambda header, arrays: arrays.update({"state.temper.figures": np.zeros(2, np.float32)}),
        lambda header, arrays: arrays.update({"guard.health.window": np.zeros((3, 5), np.int64)}),
        lambda header, arrays: arrays.update({"state.caches.bank.features": np.zeros(5, np.float32)}),
        lambda header, arrays: arrays.update({"fusion.loudness": np.zeros(3)}),
        lambda header, arrays: arrays.update({"good.taken": np.zeros(1, np.int64)}),
        lambda header, arrays: header.update(version=VERSION, guard=Guard().parameters()),
    ],
)
def test_what_fits_nothing_is_refused(change, tmp_path):
    with pytest.raises(TrimtabError, match="does not hold the arrays that mcp keeps"):
        Stream.load(changed(old("mcp-guard", tmp_path), change), TASK)


@pytest.mark.parametrize(
    ("name", "where", "value"),
    [("places", (0, 1), 10_000), ("places", (0, 1), -7), ("holders", 0, 9), ("row_figures", 0, 10**9)],
)
def test_items_that_lie_nowhere_are_refused(name, where, value, tmp_path):
    """What a file says of rows is looked up unchecked ever after."""
    stream = Stream.load(old("mcp-guard", tmp_path), TASK)
    stream.save(tmp_path / "new")

    def damage(_, arrays):
        arrays[f"state.caches.bank.{name}"][where] = value

    with pytest.raises(TrimtabError, match="names items that it does not hold"):
        Stream.load(changed(tmp_path / "new", damage), TASK)


def test_other_formats_tasks_and_damage_are_refused(tmp_path):
    path = old("keel-guard", tmp_path)
    whole = path.read_bytes()
    for version in (1, VERSION + 1, None):
        with pytest.raises(TrimtabError, match=f"has state format {version}, this trimtab reads 2 to {VERSION}"):
            Stream.load(changed(path, lambda header, _, version=version: header.update(version=version)), TASK)
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(TrimtabError, match="checksum differs"):
        Stream.load(path, TASK)
    path.write_bytes(whole[:-1])
    with pytest.raises(TrimtabError, match="not a whole saved state"):
        Stream.load(path, TASK)
    path.write_bytes(whole)
    with pytest.raises(TrimtabError, match="other text prototypes"):
        Stream.load(path, Task(TASK.class_names, TASK.text_prototypes[::-1], 30.0))
    with pytest.raises(TrimtabError, match="snapshots"):
        Stream.load(changed(path, lambda header, _: header["guard"].update(snapshots="many")), TASK)


def test_a_server_takes_older_states(tmp_path):
    state = old("keel-guard", tmp_path)
    given = {"name": "s", "labels": TASK.class_names, "method": "keel", "parameters": {"memory_slots": 64}}
    settings = StreamSettings.from_dict({**given, "fsync": "never", "guard_parameters": {"fall_back": False}})
    tenant = Tenant.create(tmp_path / "s", settings, TASK.text_prototypes, TASK.logit_scale)
    tenant.put_state(state.read_bytes())
    assert tenant.classify([Request(IMAGES[40])])[0].seen == 41
    tenant.close()
    assert Tenant.open(tmp_path / "s").classify([Request(IMAGES[41])])[0].seen == 42
    other = Tenant.create(tmp_path / "o", StreamSettings.from_dict(given), TASK.text_prototypes, TASK.logit_scale)
    with pytest.raises(TrimtabError, match="another guard"):
        other.put_state(state.read_bytes())
