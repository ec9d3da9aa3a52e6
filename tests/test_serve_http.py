"""The interface of `trimtab serve`: what goes in, what comes out, and what is refused."""

import base64
import io
import json
import threading
import time

import numpy as np
import pytest
from safetensors.numpy import save
from starlette.testclient import TestClient

from tests.serving import LABELS, SETTINGS, made, picture, pictures, rows, served
from tests.tiny_encoder import ColorEncoder
from trimtab.classifier import Classifier
from trimtab.errors import TrimtabError
from trimtab.serve.client import Client, ServerError
from trimtab.serve.limits import Limits
from trimtab.serve.routes.streams import about
from trimtab.serve.running import run_in_thread


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with TestClient(made(tmp_path_factory.mktemp("server")), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def stream(server):
    """The address of a new stream."""
    name = f"s{len(server.get('/v1/streams').json()['streams'])}"
    assert server.post("/v1/streams", json={"name": name, **SETTINGS}).status_code == 201
    return f"/v1/streams/{name}"


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_a_stream_is_made_once_and_refused_if_it_differs(server):
    asked = {"name": "made", **SETTINGS}
    first = server.post("/v1/streams", json=asked)
    assert (first.status_code, first.json()["mode"], first.json()["seen"]) == (201, "adapting", 0)
    assert server.post("/v1/streams", json=asked).status_code == 200
    other = server.post("/v1/streams", json={**asked, "labels": ["red", "green"]})
    assert other.status_code == 409
    assert "'made'" in other.json()["error"]
    assert "made" in server.get("/v1/streams").json()["streams"]
    assert server.delete("/v1/streams/made").status_code == 204
    assert server.get("/v1/streams/made").status_code == 404


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "../etc"}, "small letters"),
        ({"name": "A"}, "small letters"),
        ({"labels": ["red"]}, "labels"),
        ({"labels": "red,green"}, "list of names"),
        ({"encoder": "hf:/etc"}, "does not offer the encoder"),
        ({"templates": "/etc/passwd"}, "no template set"),
        ({"templates": [f"{n} {{}}" for n in range(9000)]}, "too many"),
        ({"method": "tpt"}, "cannot be served"),
        ({"nonsense": 1}, "no setting"),
        ({"parameters": {"align_slots": -1}}, "align_slots"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(server, change, says):
    answer = server.post("/v1/streams", json={"name": "x", **SETTINGS, **change})
    assert answer.status_code == 422
    assert says in answer.json()["error"]
    assert "x" not in server.get("/v1/streams").json()["streams"]


def test_every_form_of_a_picture_gets_the_same_answer(server, stream):
    for each in pictures(12):
        assert server.post(f"{stream}/classify", content=each).json()["answers"][0]["durable"]
    one, two = picture("blue", 77), picture("green", 78)
    look = f"{stream}/classify?learn=false&explain=parts&top=2"
    asked = [
        server.post(look, content=one, headers={"content-type": "image/png"}),
        server.post(look, content=one),
        server.post(look, files={"image": ("a.png", one)}),
        server.post(look, json={"inputs": base64.b64encode(one).decode()}),
        server.post(look, json={"inputs": [f"data:image/png;base64,{base64.b64encode(one).decode()}"]}),
    ]
    answers = [answer.json()["answers"][0] for answer in asked]
    for answer in answers:
        del answer["id"]
    assert answers == [answers[0]] * len(answers)
    found = answers[0]
    assert (found["label"], found["zero_shot"]["label"], found["seen"], found["learned"]) == ("blue", "blue", 12, False)
    assert len(found["predictions"]) == 2
    assert set(found["parts"]) == {"text", "prototype", "retrieval"}
    both = server.post(look, files=[("images", ("a", one)), ("images", ("b", two))]).json()["answers"]
    assert [answer["label"] for answer in both] == ["blue", "green"]
    hugging = server.post(f"/predictions/{stream.split('/')[-1]}", json={"inputs": base64.b64encode(one).decode()})
    assert [guess["label"] for guess in hugging.json()][:1] == ["blue"]
    assert sum(guess["score"] for guess in hugging.json()) == pytest.approx(1, abs=1e-5)
    assert hugging.headers["x-trimtab-seen"] == "13"


def test_features_of_ones_own_are_taken_and_python_objects_are_not(server, stream):
    given = rows(6)
    answers = server.post(f"{stream}/features", content=npy(given)).json()["answers"]
    assert [answer["label"] for answer in answers] == [LABELS[n % 4] for n in range(6)]
    columns = server.post(f"{stream}/features?learn=false", content=npy(np.asfortranarray(given.astype(np.float64))))
    assert len(columns.json()["answers"]) == 6
    tensors = server.post(
        f"{stream}/features?learn=false", content=save({"features": given[:, None].astype(np.float16)})
    )
    assert len(tensors.json()["answers"]) == 6
    huge = npy(given).replace(b"(6, 28)", b"(9999999999, 28)")
    for bad, status in (
        (npy(np.array([{"a": 1}], dtype=object)), 422),
        (huge, 422),
        (npy(given)[:-7], 422),
        (npy(given * np.nan), 422),
        (npy(given[:, :5]), 422),
        (npy(given.astype(np.int64)), 422),
        (npy(np.zeros((300, 28), np.float32)), 413),
        (save({"a": given, "b": given}), 422),
        (b"\x80\x04\x95nonsense", 415),
        (b"", 415),
    ):
        answer = server.post(f"{stream}/features", content=bad)
        assert answer.status_code == status, answer.text
    assert server.get(stream).json()["seen"] == 6


def test_one_bad_picture_and_nothing_is_learned(server, stream):
    bad = server.post(f"{stream}/classify", files=[("a", ("a", picture())), ("b", ("b", b"nonsense"))])
    assert bad.status_code == 422
    assert bad.json()["error"].startswith("Picture 2 of 2")
    assert server.get(stream).json()["seen"] == 0
    for content, kind, status in (
        (b"", "image/png", 422),
        (b"{}", "application/json", 422),
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"inputs": "%%%"}', "application/json", 422),
        (b'{"inputs": 7}', "application/json", 422),
        (b"x", "text/html", 415),
        (b"x", "multipart/form-data", 400),
        (b"x", "multipart/form-data; boundary=b", 400),
        (b"--b--\r\n", "multipart/form-data; boundary=b", 422),
        (picture()[:200], "image/png", 422),
    ):
        answer = server.post(f"{stream}/classify", content=content, headers={"content-type": kind})
        assert answer.status_code == status, (content[:20], answer.text)
        assert set(answer.json()) == {"error", "status", "request_id"}


def test_candidate_labels_must_be_the_streams_own(server, stream):
    body = {
        "inputs": base64.b64encode(picture()).decode(),
        "parameters": {"candidate_labels": list(LABELS), "top_k": 2},
    }
    place = f"/predictions/{stream.split('/')[-1]}"
    assert len(server.post(place, json=body).json()) == 2
    body["parameters"]["candidate_labels"] = ["cat", "dog"]
    assert server.post(place, json=body).status_code == 422


def test_a_key_is_learned_once_and_not_for_another_body(server, stream):
    one, two = picture(seed=1), picture(seed=2)
    headers = {"Idempotency-Key": "k"}
    first = server.post(f"{stream}/classify", content=one, headers=headers).json()["answers"][0]
    again = server.post(f"{stream}/classify", content=one, headers=headers).json()["answers"][0]
    assert again == {**first, "replayed": True}
    assert server.post(f"{stream}/classify", content=two, headers=headers).status_code == 409
    both = [("a", ("a", one)), ("b", ("b", two))]
    assert server.post(f"{stream}/classify", files=both, headers=headers).status_code == 409
    assert server.get(stream).json()["seen"] == 1


def test_the_way_back(server, stream):
    for each in pictures(8):
        server.post(f"{stream}/classify", content=each)
    kept = server.post(f"{stream}/snapshots", json={"note": "good"}).json()
    state = server.get(f"{stream}/state").content
    frozen = server.post(f"{stream}/freeze").json()
    assert frozen["mode"] == "frozen"
    looked = server.post(f"{stream}/classify", content=picture(seed=50)).json()["answers"][0]
    assert (looked["learned"], looked["seen"]) == (False, 8)
    assert server.post(f"{stream}/feedback", json={"id": "0-0", "label": "red"}).status_code == 423
    assert server.post(f"{stream}/resume").json()["mode"] == "adapting"
    assert server.post(f"{stream}/reset").json()["seen"] == 0
    back = server.post(f"{stream}/snapshots/{kept['name']}/restore").json()
    assert back["seen"] == 8
    assert server.post(f"{stream}/reset").json()["seen"] == 0
    assert server.put(f"{stream}/state", content=state).json()["seen"] == 8
    for damaged in (state[:-9], b"nonsense", b"", state[:100] + b"\0" + state[101:]):
        assert server.put(f"{stream}/state", content=damaged).status_code == 422
    names = [each["name"] for each in server.get(f"{stream}/snapshots").json()["snapshots"]]
    assert kept["name"] in names
    assert server.get(f"{stream}/snapshots/{kept['name']}").content[8:] != b""
    assert server.delete(f"{stream}/snapshots/{kept['name']}").status_code == 204
    assert server.post(f"{stream}/snapshots/{kept['name']}/restore").status_code == 404
    assert server.get(f"{stream}/snapshots/..%2F..%2Fstate").status_code == 404


def test_corrections_and_evictions(server, stream):
    answers = [server.post(f"{stream}/classify", content=each).json()["answers"][0] for each in pictures(4)]
    done = server.post(f"{stream}/feedback", json={"id": answers[0]["id"], "label": "blue"}).json()
    assert (done["label"], done["before"], done["placed"]) == ("blue", "red", True)
    assert server.post(f"{stream}/feedback", json={"id": answers[0]["id"], "label": "pink"}).status_code == 422
    assert server.post(f"{stream}/feedback", json={"id": "9-9", "label": "blue"}).status_code == 404
    held = {item["id"] for label in server.get(f"{stream}/cache").json()["labels"] for item in label["items"]}
    assert answers[1]["id"] in held
    assert server.delete(f"{stream}/cache/{answers[1]['id']}").json()["items"] > 0
    after = {item["id"] for label in server.get(f"{stream}/cache").json()["labels"] for item in label["items"]}
    assert answers[1]["id"] not in after
    for place in ("health", "history", "recent", "flips"):
        assert server.get(f"{stream}/{place}").status_code == 200


def test_thumbnails_only_where_asked_for(server):
    server.post("/v1/streams", json={"name": "shown", **SETTINGS, "thumbnails": True})
    shown = server.post("/v1/streams/shown/classify", content=picture()).json()["answers"][0]["id"]
    found = server.get(f"/v1/streams/shown/thumbnails/{shown}")
    assert (found.headers["content-type"], found.content[:2]) == ("image/jpeg", b"\xff\xd8")
    assert server.get(f"/v1/streams/one/thumbnails/{shown}").status_code == 404
    assert server.delete("/v1/streams/shown/thumbnails").json() == {"items": 1}
    assert server.get(f"/v1/streams/shown/thumbnails/{shown}").status_code == 404


def test_streams_know_nothing_of_each_other(server):
    before = server.get("/v1/streams/two").json()
    answer = server.post("/v1/streams/one/classify", content=picture()).json()["answers"][0]
    assert server.get("/v1/streams/two").json() == before
    assert server.post("/v1/streams/two/feedback", json={"id": answer["id"], "label": "red"}).status_code == 404


def test_the_open_inference_protocol_and_prometheus(server):
    assert server.get("/v2/health/live").json() == {"live": True}
    assert server.get("/v2/health/ready").json() == {"ready": True}
    assert server.get("/v2").json()["name"] == "trimtab"
    model = server.get("/v2/models/one").json()
    assert (model["inputs"][0]["shape"], model["outputs"][0]["shape"]) == ([-1, 1, 28], [-1, 4])
    assert server.get("/v2/models/one/ready").status_code == 200
    assert server.get("/v2/models/nobody/ready").status_code == 404
    server.post("/v1/streams/one/classify", content=picture(seed=5))
    text = server.get("/metrics").text
    assert 'trimtab_images_total{learned="yes",stream="one"}' in text
    assert "trimtab_batch_pictures_count" in text


def test_label_studio_suggests_and_corrects(server, stream):
    place = f"/label-studio/{stream.split('/')[-1]}"
    task = {"id": 7, "data": {"image": f"data:image/png;base64,{base64.b64encode(picture('blue')).decode()}"}}
    assert server.get(f"{place}/health").json()["status"] == "UP"
    assert "model_version" in server.post(f"{place}/setup", json={"project": "1"}).json()
    (suggested,) = server.post(f"{place}/predict", json={"tasks": [task]}).json()["results"]
    assert suggested["result"][0]["value"]["choices"] == ["blue"]
    assert server.get(stream).json()["seen"] == 0
    said = {"result": [{"type": "choices", "value": {"choices": ["green"]}}]}
    event = {"action": "ANNOTATION_CREATED", "task": task, "annotation": said}
    for _ in range(2):  # learned once, however often Label Studio says it
        assert server.post(f"{place}/webhook", json=event).json()["status"] == "corrected"
    assert server.get(stream).json()["seen"] == 1
    assert server.post(f"{place}/webhook", json={"action": "PROJECT_UPDATED"}).json() == {"status": "ignored"}
    other = {"id": 8, "data": {"image": "http://169.254.169.254/latest/meta-data"}}
    refused = server.post(f"{place}/predict", json={"tasks": [other]})
    assert refused.status_code == 422
    assert "Label Studio that the configuration names" in refused.json()["error"]


def test_the_description_names_every_answer(server):
    document = server.get("/openapi.json").json()
    assert len(document["paths"]) >= 25
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            assert {"401", "403", "413", "429", "503"} <= operation["responses"].keys(), (method, path)


def test_the_client_does_all_of_it(tmp_path):
    with served(tmp_path) as address:
        client = Client(address)
        assert client.streams() == ["one", "two"]
        assert client.create("three", LABELS, encoder="colors", guard=False)["seen"] == 0
        heard = []
        listening = threading.Event()

        def listen():
            for event in client.events("three"):
                heard.append(event["kind"])
                listening.set()

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        assert listening.wait(10)
        replies = client.classify_many("three", pictures(6), explain=True)
        assert [reply.label for reply in replies] == [LABELS[n % 4] for n in range(6)]
        assert replies[0].parts
        (tmp_path / "a.png").write_bytes(picture("yellow", 9))
        assert client.classify("three", tmp_path / "a.png", learn=False).label == "yellow"
        assert client.classify_features("three", rows(2), learn=False)[1].label == "green"
        assert client.feedback("three", replies[0].id, "green")["placed"]
        assert client.evict("three", replies[1].id) > 0
        assert client.freeze("three")["mode"] == "frozen"
        assert client.resume("three")["mode"] == "adapting"
        name = client.take_snapshot("three", "here")
        assert client.reset("three")["seen"] == 0
        assert client.restore("three", name)["seen"] == 6
        assert client.put_state("three", client.state("three"))["seen"] == 6
        assert name in [each["name"] for each in client.snapshots("three")]
        client.delete_snapshot("three", name)
        assert client.cache("three")
        assert client.health("three")["seen"] == 6
        client.delete("three")
        with pytest.raises(ServerError, match="no stream 'three'") as refused:
            client.stream("three")
        assert refused.value.status == 404
    listener.join(10)  # a server that stops ends what clients listen to
    assert not listener.is_alive()
    assert {"hello", "step", "write"} <= set(heard)
    json.dumps(heard)


@pytest.mark.parametrize("options", [{"views": 4}, {"views": 8, "view_budget": 3.0, "seed": 2}])
def test_a_stream_says_what_a_classifier_says(server, options):
    classifier = Classifier(ColorEncoder(), LABELS, method="mcp", guard=False, **options)
    name = f"like-{len(options)}"
    server.post("/v1/streams", json={"name": name, **SETTINGS, **options})
    for number, each in enumerate(pictures(10, first=300)):
        expected = classifier.classify(each)
        content = server.post(f"/v1/streams/{name}/classify", content=each).json()["answers"][0]["predictions"]
        assert [guess["label"] for guess in content] == [guess["label"] for guess in expected], number
        assert [guess["score"] for guess in content] == pytest.approx([guess["score"] for guess in expected], abs=1e-6)


def test_many_may_make_and_delete_one_stream_at_once(server):
    service, asked = server.app.state.service, {"name": "contested", **SETTINGS}
    odd = []

    def work(turn):
        for number in range(8):
            try:
                if (turn + number) % 2:
                    service._create(asked)
                else:
                    service.hub.delete("contested")
                service.hub.get("contested").snapshots()
                about(service.hub.get("contested"))
            except TrimtabError:
                pass
            except Exception as error:
                odd.append(error)

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert odd == []


def test_listeners_are_bounded_and_leave_no_trace(tmp_path):
    app = made(tmp_path, limits=Limits(listeners=2))
    port, stop = run_in_thread(app, Limits())
    try:
        client = Client(f"http://127.0.0.1:{port}")
        told = [client.events("one"), client.events("one")]
        assert [next(each)["kind"] for each in told] == ["hello", "hello"]
        with pytest.raises(ServerError, match="2 clients listen already"):
            next(client.events("one"))
        with pytest.raises(ServerError, match="no stream 'nobody'"):
            next(client.events("nobody"))
        for each in told:
            each.close()
        deadline = time.monotonic() + 20
        while app.state.service.listeners and time.monotonic() < deadline:
            client.classify("one", picture())  # what is told finds out that nobody is there
            time.sleep(0.1)
        assert app.state.service.listeners == 0
        assert next(client.events("one"))["kind"] == "hello"
    finally:
        stop()


@pytest.mark.parametrize("way", ["classify", "features"])
def test_a_mistyped_parameter_is_refused_and_teaches_nothing(server, stream, way):
    body = picture("red", 1) if way == "classify" else npy(rows(1))
    for query in ("lern=false", "learn=false&Learn=false", "learn=false&token=x"):
        answer = server.post(f"{stream}/{way}?{query}", content=body)
        assert answer.status_code == 422, answer.text
        assert "knows no parameter" in answer.json()["error"]
        assert "it takes learn, top, explain, source." in answer.json()["error"]
    assert server.get(stream).json()["seen"] == 0


@pytest.mark.parametrize("method", ["get", "post", "put", "delete"])
def test_every_route_refuses_parameters_that_it_does_not_know(server, stream, method):
    name = stream.rsplit("/", 1)[1]
    for path, methods in server.get("/openapi.json").json()["paths"].items():
        if method in methods:
            given = path.format(stream=name, image="0-0", source="a", snapshot="1")
            answer = server.request(method, f"{given}?nonsense=1")
            assert answer.status_code == 422, (path, answer.text)
            assert "knows no parameter 'nonsense'" in answer.json()["error"]
    assert server.get(stream).status_code == 200


def test_parameters_that_a_route_knows_are_taken(server, stream):
    server.post(f"{stream}/classify", content=picture("red", 1))
    assert server.get(f"{stream}/recent?limit=1").status_code == 200
    name = stream.rsplit("/", 1)[1]
    found = server.post(f"/predictions/{name}?learn=false&top=2", content=picture("red", 2))
    assert len(found.json()) == 2


def test_after_a_reset_nothing_is_known_of_agreement(server, stream):
    for each in pictures(3):
        server.post(f"{stream}/classify", content=each)
    assert server.get(stream).json()["agreement"] is not None
    assert server.post(f"{stream}/reset").json()["agreement"] is None
    server.post(f"{stream}/classify", content=picture("red", 1))
    assert server.get(stream).json()["agreement"] in (0.0, 1.0)
