"""Nobody gets in, nobody gets through, nobody holds the server up."""

import asyncio
import json
import re
import socket
import struct
import time
import zlib
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from tests.serving import SETTINGS, made, picture, read_answer, send, served, token
from tests.tiny_encoder import ColorEncoder
from trimtab.errors import TrimtabError
from trimtab.serve.access import Access, add_token, is_loopback, read_tokens, refuse_open_door
from trimtab.serve.limits import HeldBytes, Limits, Rate
from trimtab.serve.patience import impatient
from trimtab.serve.problems import Busy

ACCESS = Access([token("root", "admin"), token("sender", "classify", "one"), token("keeper", "admin", "one")])


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return made(tmp_path_factory.mktemp("server"), access=ACCESS, limits=Limits(wrong_tokens_per_minute=1000))


@pytest.fixture(scope="module")
def server(app):
    with TestClient(app, base_url="http://example.org") as client:
        yield client


def bearer(name):
    return {"Authorization": f"Bearer {name}"}


def operations(app):
    """Every operation of the interface, on the stream `one`."""
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            filled = path.replace("{stream}", "one").replace("{snapshot}", "x").replace("{image}", "0-0")
            yield method.upper(), filled.replace("{source}", "s")


FOR_ALL = {"/v2/health/live", "/v2/health/ready"}
FOR_SENDERS = {  # what the role classify may do with its own stream
    *(("GET", path) for path in ("/v1/streams", "/v1/streams/one", "/v2", "/v2/models/one", "/v2/models/one/ready")),
    *(("GET", f"/v1/streams/one/{look}") for look in ("cache", "events", "flips", "health", "history", "recent")),
    *(("POST", path) for path in ("/v1/streams/one/classify", "/v1/streams/one/features", "/predictions/one")),
    ("GET", "/label-studio/one/health"),
    ("POST", "/label-studio/one/setup"),
    ("POST", "/label-studio/one/predict"),
}


def test_every_operation_asks_for_a_token_and_for_the_right_one(app, server):
    found = list(operations(app))
    assert set(FOR_SENDERS) <= set(found)
    for method, path in found:
        if path in FOR_ALL:
            assert server.request(method, path).status_code == 200
            continue
        assert server.request(method, path).status_code == 401, path
        assert server.request(method, path, headers=bearer("nonsense")).status_code == 401, path
        if path.endswith("/events"):
            continue  # would never end; its door is the same as that of the others below
        allowed = server.request(method, path, headers=bearer("sender")).status_code not in (401, 403)
        assert allowed == ((method, path) in FOR_SENDERS), (method, path)
        elsewhere = server.request(method, path.replace("/one", "/two"), headers=bearer("keeper"))
        if "/one" in path:
            assert elsewhere.status_code == 403, (method, path)


def test_a_token_sees_its_own_streams_only(server):
    assert server.get("/v1/streams", headers=bearer("sender")).json() == {"streams": ["one"]}
    assert server.get("/v1/streams", headers=bearer("root")).json() == {"streams": ["one", "two"]}
    assert server.get("/v1/streams/nobody", headers=bearer("sender")).status_code == 403
    assert server.get("/v1/streams/nobody", headers=bearer("root")).status_code == 404
    assert server.get("/metrics", headers=bearer("keeper")).status_code == 403
    new = {"name": "three", **SETTINGS}
    assert server.post("/v1/streams", json=new, headers=bearer("keeper")).status_code == 403


def test_a_token_may_come_as_a_key_a_password_or_for_looking_only_as_a_cookie(server):
    assert server.get("/v1/streams/one", headers={"X-API-Key": "sender"}).status_code == 200
    assert server.get("/v1/streams/one", auth=("anybody", "sender")).status_code == 200
    assert server.get("/v1/streams/one", headers={"Authorization": "Basic %%%"}).status_code == 401
    cookie = {"Cookie": "trimtab_token=root"}
    assert server.get("/v1/streams/one", headers=cookie).status_code == 200
    assert server.post("/v1/streams/one/freeze", headers=cookie).status_code == 401


ODD_PATHS = """
/v1/streams/one%2Ftwo /v1/streams/..%2F..%2Fetc /v1/streams/one%0a /v1/streams/two%00 /v1//streams /v1/streams/one/
//v1/streams /v1/streams/%2e%2e/two
"""


@pytest.mark.parametrize("path", ODD_PATHS.split())
def test_odd_paths_lead_nowhere(server, path):
    assert server.get(path).status_code in (401, 404)
    assert server.get(path, headers=bearer("keeper")).status_code in (403, 404)
    assert server.get(path, headers=bearer("root")).status_code in (404, 422)


def test_other_sites_cannot_use_a_visitors_browser(tmp_path):
    with TestClient(made(tmp_path), base_url="http://127.0.0.1:8000") as server:
        place = "/v1/streams/one/reset"
        assert server.post(place, headers={"Origin": "http://evil.example"}).status_code == 403
        assert server.post(place, headers={"Origin": "null"}).status_code == 403
        assert server.post(place, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert server.post(place, headers={"Origin": "http://127.0.0.1:8000"}).status_code == 200
        for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
            assert server.get("/v1/streams", headers={"Host": host}).status_code == 403, host
        for host in ("localhost", "localhost:8000", "[::1]:8000", "127.0.0.1"):
            assert server.get("/v1/streams", headers={"Host": host}).status_code == 200, host
        answer = server.options("/v1/streams", headers={"Origin": "http://e", "Access-Control-Request-Method": "POST"})
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_every_answer_carries_the_headers(server):
    for path in ("/v2/health/live", "/nowhere", "/v1/streams"):
        headers = server.get(path, headers={"X-Request-ID": "abc"}).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")
        assert headers["x-request-id"] == "abc"
    odd = server.get("/v2/health/live", headers={"X-Request-ID": "a b\tc"}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{16}", odd)


def test_tokens_are_kept_as_hashes(tmp_path):
    file = tmp_path / "tokens.json"
    first = add_token(file, "camera", "classify", ["one"])
    second = add_token(file, "me", "admin", ["*"])
    assert len(first) >= 40
    assert first not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    access = Access.read(file)
    assert access.role(first, "one") == "classify"
    assert access.role(first, "two") is None
    assert access.role(first, None) is None
    assert access.role(second, None) == "admin"
    assert access.role(None, "one") is None
    assert access.role("", "one") is None
    with pytest.raises(TrimtabError, match="'camera' already"):
        add_token(file, "camera", "classify", ["one"])
    with pytest.raises(TrimtabError, match="role must be one of"):
        add_token(file, "b", "root", ["one"])
    with pytest.raises(TrimtabError, match="small letters"):
        add_token(file, "b", "admin", ["../one"])


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"tokens": [1]}', '{"tokens": [{"name": "a"}]}', '{"tokens": 7}'])
def test_a_damaged_token_file_opens_nothing(tmp_path, content):
    (tmp_path / "tokens.json").write_text(content)
    with pytest.raises(TrimtabError, match="is not a token file"):
        read_tokens(tmp_path / "tokens.json")


def test_an_open_server_listens_to_its_own_machine_only():
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.5"):
        assert is_loopback(host)
        refuse_open_door(host, Access())
    for host in ("0.0.0.0", "::", "192.168.0.1", "example.org", "localhost.example.org", ""):
        assert not is_loopback(host)
        with pytest.raises(TrimtabError, match="has no tokens"):
            refuse_open_door(host, Access())
        refuse_open_door(host, ACCESS)


def test_wrong_tokens_are_counted(tmp_path):
    with TestClient(made(tmp_path, access=ACCESS, limits=Limits(wrong_tokens_per_minute=3))) as server:
        codes = [server.get("/v1/streams", headers=bearer(f"guess-{n}")).status_code for n in range(5)]
        assert codes == [401, 401, 401, 429, 429]
        assert server.get("/v1/streams", headers=bearer("root")).status_code == 200


def bomb(width, height):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(b"\0" * (3 * width + 1) * 10)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def test_sizes_rates_and_bombs(tmp_path):
    limits = Limits(body_megabytes=1, pixels=1_000_000, pictures_per_request=3, requests_per_minute=30)
    with TestClient(made(tmp_path, limits=limits, quota=4), base_url="http://localhost") as server:
        place = "/v1/streams/one/classify"
        large = server.post(place, content=b"x" * (1 << 20) + b"x")
        assert large.status_code == 413
        assert "1 MB" in large.json()["error"]
        in_pieces = server.post(place, content=(b"x" * 65536 for _ in range(17)))
        assert in_pieces.status_code == 413
        huge = server.post(place, content=bomb(50_000, 50_000))
        assert (huge.status_code, "1,000,000 pixels" in huge.json()["error"]) == (422, True)
        packed = server.post(place, content=zlib.compress(picture()), headers={"Content-Encoding": "deflate"})
        assert packed.status_code == 415
        four = server.post(place, files=[("a", (str(n), picture(seed=n))) for n in range(4)])
        assert four.status_code == 413
        assert [server.post(place, content=picture(seed=n)).status_code for n in range(3)] == [200, 200, 200]
        over = server.post(place, files=[("a", (str(n), picture(seed=n))) for n in range(3)])
        assert over.status_code == 429
        assert int(over.headers["retry-after"]) >= 1
        assert "4 images per minute" in over.json()["error"]
        assert server.get("/v1/streams/one").json()["seen"] == 3
        codes = [server.get("/v2/health/live").status_code for _ in range(30)]
        assert codes[-1] == 429


def test_a_full_queue_is_said_and_passes(tmp_path):
    limits = Limits(pictures_waiting=2)
    with TestClient(made(tmp_path, limits=limits), base_url="http://localhost") as server:
        full = server.post("/v1/streams/one/classify", files=[("a", (str(n), picture(seed=n))) for n in range(3)])
        assert full.status_code == 503
        assert int(full.headers["retry-after"]) >= 1
        assert server.post("/v1/streams/one/classify", content=picture()).status_code == 200


def test_bodies_together_are_bounded():
    held = HeldBytes(100)
    held.hold(60)
    with pytest.raises(Busy):
        held.hold(60)
    held.let_go(60)
    held.hold(100)


def test_a_rate_fills_up_again(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    rate = Rate(60)
    assert [rate.take("a") for _ in range(60)] == [0.0] * 60
    assert rate.take("a") == pytest.approx(1.0)
    assert rate.take("b") == 0.0
    now[0] = 2.0
    assert [rate.take("a"), rate.take("a")] == [0.0, 0.0]
    assert rate.take("a") > 0
    now[0] = 1000.0
    assert rate.take("a", 120) == 0.0  # more at once than a minute's worth, paid for afterwards
    assert rate.take("a") > 60


def test_slow_clients_are_cut_off_and_vanished_ones_harm_nobody(tmp_path):
    limits = Limits(head_seconds=1, body_seconds=1)
    with served(tmp_path, limits=limits) as address:
        host, port = address.removeprefix("http://").split(":")
        head = f"POST /v1/streams/one/classify HTTP/1.1\r\nHost: {host}:{port}\r\n".encode()
        silent = [socket.create_connection((host, int(port)), timeout=10) for _ in range(3)]
        silent[1].sendall(head)  # never finishes its head
        silent[2].sendall(head + b"Content-Length: 1000\r\n\r\nabc")  # never finishes its body
        for _ in range(3):  # those leave in the middle of a body
            with socket.create_connection((host, int(port))) as gone:
                gone.sendall(head + b"Content-Length: 1000\r\n\r\nabc")
        body = picture()
        whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        with socket.create_connection((host, int(port))) as gone:  # and this one before its answer
            gone.sendall(whole)
        assert send(address, whole)[0] == 200  # others are answered meanwhile
        assert read_answer(silent[0])[0] == 0
        assert read_answer(silent[1])[0] == 0
        status, headers, content = read_answer(silent[2])
        assert (status, headers["connection"]) == (408, "close")
        assert "within 1 seconds" in json.loads(content)["error"]
        with socket.create_connection(
            (host, int(port)), timeout=10
        ) as patient:  # an old connection, a slow second head
            patient.sendall(whole)
            assert read_answer(patient)[0] == 200
            patient.sendall(b"GET /v2")
            assert read_answer(patient)[0] == 0


def test_a_head_without_an_end_is_cut_off_and_a_large_one_is_not(tmp_path):
    with served(tmp_path) as address:
        host, port = address.removeprefix("http://").split(":")
        start = f"GET /v2/health/live HTTP/1.1\r\nHost: {host}:{port}\r\nX-Long: ".encode()
        assert send(address, start + b"a" * 40_000 + b"\r\n\r\n")[0] == 200
        with socket.create_connection((host, int(port)), timeout=10) as endless:
            endless.sendall(start)
            with pytest.raises(ConnectionError):
                endless.sendall(b"a" * (64 << 20))
        assert send(address, f"GET /v2/health/live HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())[0] == 200


def test_an_encoder_that_fails_is_said_and_the_next_picture_is_answered(tmp_path):
    encoder = ColorEncoder()
    with TestClient(made(tmp_path, encoder=encoder), base_url="http://localhost") as server:
        works, encoder.encode_images = encoder.encode_images, lambda _: 1 / 0
        broken = server.post("/v1/streams/one/classify", content=picture())
        assert (broken.status_code, "ZeroDivisionError" in broken.json()["error"]) == (503, True)
        encoder.encode_images = works
        assert server.post("/v1/streams/one/classify", content=picture()).status_code == 200


def test_a_client_that_does_not_take_its_answer_is_cut_off():
    done = []

    class Uvicorns:
        cycle = None
        transport = SimpleNamespace(close=lambda: done.append("closed"), abort=lambda: done.append("aborted"))

        def connection_made(self, _):
            self.loop = asyncio.get_running_loop()

        def data_received(self, data):
            self.cycle = SimpleNamespace(response_complete=False)

        pause_writing = resume_writing = lambda self: None

    async def story(*steps):
        done.clear()
        protocol = impatient(Uvicorns, SimpleNamespace(head_seconds=0.05, send_seconds=0.05))()
        protocol.connection_made(None)
        for step, *given in steps:
            getattr(protocol, step)(*given)
        await asyncio.sleep(0.2)
        return list(done)

    head = ("data_received", b"GET / HTTP/1.1")
    assert asyncio.run(story()) == ["closed"]
    assert asyncio.run(story(head)) == []
    assert asyncio.run(story(head, ("pause_writing",))) == ["aborted"]
    assert asyncio.run(story(head, ("pause_writing",), ("resume_writing",))) == []
