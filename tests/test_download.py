import hashlib
import http.server
import socket
import threading
import time

import pytest

from trimtab.files import download


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server for one folder; what is called broken.bin promises more than it sends."""

    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *arguments):
            pass

        def send_header(self, keyword, value):
            if keyword == "Content-Length" and self.path.endswith("broken.bin"):
                value = "999999"
            super().send_header(keyword, value)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_the_whole_file_arrives(server, tmp_path):
    content = bytes(range(256)) * 9000
    (tmp_path / "big.bin").write_bytes(content)
    download(f"{server}/big.bin", tmp_path / "copy", "a file")
    assert (tmp_path / "copy").read_bytes() == content


def test_what_breaks_is_an_oserror(server, tmp_path):
    with pytest.raises(OSError, match="404"):
        download(f"{server}/missing.bin", tmp_path / "copy", "a file")
    (tmp_path / "broken.bin").write_bytes(b"short")
    with pytest.raises(OSError, match="broke off after 5 of 999999 bytes"):
        download(f"{server}/broken.bin", tmp_path / "copy", "a file")
    with pytest.raises(OSError, match=r"cannot be reached: .*refused"):
        download("http://127.0.0.1:9/nobody.bin", tmp_path / "copy", "a file")
    assert [path.name for path in tmp_path.iterdir()] == ["broken.bin"], "half a file was left"


def test_another_checksum_is_refused_and_the_old_file_stays(server, tmp_path):
    (tmp_path / "new.bin").write_bytes(b"new")
    (tmp_path / "copy").write_bytes(b"old")
    with pytest.raises(OSError, match="wrong checksum"):
        download(f"{server}/new.bin", tmp_path / "copy", "a file", sha256="0" * 64)
    assert (tmp_path / "copy").read_bytes() == b"old"
    download(f"{server}/new.bin", tmp_path / "copy", "a file", sha256=hashlib.sha256(b"new").hexdigest())
    assert (tmp_path / "copy").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "new.bin"]


def test_a_server_that_says_nothing_is_left_soon(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/never.bin"
        began = time.monotonic()
        with pytest.raises(OSError, match="timed out"):
            download(address, tmp_path / "copy", "a file", silence=0.2)
        assert time.monotonic() - began < 2
    assert list(tmp_path.iterdir()) == []
