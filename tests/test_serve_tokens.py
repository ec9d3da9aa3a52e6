"""Tokens that are withdrawn and given while the server runs."""

import json
import socket

import pytest
from starlette.testclient import TestClient

from tests.serving import made, picture, served
from trimtab.serve import Client
from trimtab.serve.access import Access, add_token


def bearer(word):
    return {"Authorization": f"Bearer {word}"}


@pytest.fixture
def token_file(tmp_path, monkeypatch):
    """A file with two admins, `keeper` and `leaver`, their tokens, and a look at it at every request."""
    monkeypatch.setattr("trimtab.serve.access.LOOK_EVERY", 0.0)
    file = tmp_path / "tokens.json"
    return file, {name: add_token(file, name, "admin", ()) for name in ("keeper", "leaver")}


def without(file, name):
    content = json.loads(file.read_text())
    file.write_text(json.dumps({"tokens": [entry for entry in content["tokens"] if entry["name"] != name]}))


def test_a_token_is_withdrawn_and_given_while_the_server_runs(tmp_path, token_file):
    file, words = token_file
    with TestClient(made(tmp_path / "s", access=Access.read(file)), base_url="http://example.org") as server:

        def status(word):
            return server.get("/v1/streams", headers=bearer(word)).status_code

        assert [status(word) for word in words.values()] == [200, 200]
        without(file, "leaver")
        assert [status(word) for word in words.values()] == [200, 401]
        assert status(add_token(file, "newcomer", "admin", ())) == 200


def test_a_server_with_tokens_never_opens_whatever_becomes_of_their_file(token_file, caplog):
    file, words = token_file
    access = Access.read(file)
    for broken in ("nonsense", '{"tokens": [{"name": "leaver"}]}', None):
        file.unlink() if broken is None else file.write_text(broken)
        assert access.who(words["leaver"]) is not None, "who could come in still can"
        assert access.who("stranger") is None
    assert sum("the tokens stay as they were" in record.getMessage() for record in caplog.records) == 3
    file.write_text('{"tokens": []}')
    assert access.who(words["leaver"]) is None
    assert not access.is_open
    assert access.role(None, "one") is None


def test_who_listens_is_let_go_with_the_token(tmp_path, token_file):
    file, words = token_file
    with served(tmp_path / "s", access=Access.read(file)) as address:
        head = f"GET /v1/streams/one/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {words['leaver']}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=20) as listening:
            listening.sendall(head.encode())
            heard = b""
            while b"hello" not in heard:
                heard += listening.recv(65536)
            without(file, "leaver")
            assert Client(address, words["keeper"]).classify("one", picture()).learned
            while not heard.endswith(b"0\r\n\r\n"):
                heard += listening.recv(65536)
    assert b"event: step" not in heard
