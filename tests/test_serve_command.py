"""`trimtab serve` and `trimtab token`, as processes: started, stopped, started again."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.serving import pictures
from trimtab.errors import TrimtabError
from trimtab.serve.client import Client, ServerError
from trimtab.serve.config import ServerConfig
from trimtab.serve.limits import Limits
from trimtab.serve.running import bind

LABELS = ("--labels", "red,green,blue,yellow", "-e", "colors", "--no-guard")


def started(tmp_path, *options):
    command = [sys.executable, "-m", "tests.audit.command", "serve", "--port", "0", "--folder", str(tmp_path / "kept")]
    return subprocess.Popen([*command, "--log", "json", *options], stderr=subprocess.PIPE, text=True)


@contextmanager
def running(tmp_path, *options):
    process = started(tmp_path, *options)
    try:
        first = json.loads(process.stderr.readline())
        assert first["message"] == "serving", first
        yield first["address"], process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_a_server_stops_when_told_and_continues_where_it_was(tmp_path):
    with running(tmp_path, *LABELS) as (address, process):
        client = Client(address)
        for each in pictures(5):
            client.classify("default", each)
        second = started(tmp_path, *LABELS)
        said = second.communicate(timeout=60)[1]
        assert (second.returncode, "Another process is writing to" in said) == (2, True)
        process.send_signal(signal.SIGTERM)
        log = process.stderr.read()
        assert process.wait(30) == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["path"] for line in lines if line["message"] == "request"] == ["/v1/streams/default/classify"] * 5
    assert all(line["status"] == 200 and line["request_id"] for line in lines if line["message"] == "request")
    with running(tmp_path) as (address, process):
        assert Client(address).stream("default")["seen"] == 5
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_server_with_tokens_and_a_file(tmp_path):
    made = subprocess.run(
        [sys.executable, "-m", "trimtab", "token", "me", "--role", "admin", "-o", str(tmp_path / "tokens.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "server.toml").write_text(
        'token_file = "tokens.json"\n[limits]\nbody_megabytes = 1\n'
        '[[streams]]\nname = "cars"\nlabels = ["red", "green"]\nencoder = "colors"\n'
    )
    with running(tmp_path, "--config", str(tmp_path / "server.toml"), "--host", "0.0.0.0") as (address, _):
        address = address.replace("0.0.0.0", "127.0.0.1")
        assert Client(address, made.stdout.strip()).streams() == ["cars"]
        with pytest.raises(ServerError, match="needs a token"):
            Client(address).streams()
        with pytest.raises(ServerError, match="larger than 1 MB"):
            Client(address, made.stdout.strip()).classify("cars", b"x" * (2 << 20))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("nonsense", "is not TOML"),
        ("nonsense = 1", "has no setting 'nonsense'"),
        ("port = 99999", "port must be a whole number from 0 to 65535"),
        ("port = 'a'", "port must be"),
        ("[limits]\nnonsense = 1", r"\[limits\] has no setting"),
        ("[limits]\nbody_megabytes = 0", "body_megabytes must be"),
        ("limits = 3", "limits must be a table"),
        ("streams = 3", "streams must be tables"),
        ("[[streams]]\nname = 'a'", "needs 'labels'"),
        ("[[streams]]\nname = 'A'\nlabels = ['a', 'b']", "small letters"),
        ("[[streams]]\nname='a'\nlabels=['a','b']\n[[streams]]\nname='a'\nlabels=['a','b']", "Two streams are called"),
        ("[label_studio]\nurl = 'file:///etc'", "Label Studio's url"),
        ("encoders = 'lite'", "encoders must be a list"),
        ("folder = ''", "folder must be"),
    ],
)
def test_a_configuration_that_cannot_be_meant(tmp_path, content, says):
    (tmp_path / "server.toml").write_text(content)
    with pytest.raises(TrimtabError, match=says):
        ServerConfig.read(tmp_path / "server.toml")


def test_paths_in_a_configuration_start_from_its_folder(tmp_path):
    (tmp_path / "server.toml").write_text('folder = "kept"\ntoken_file = "/etc/tokens.json"')
    config = ServerConfig.read(tmp_path / "server.toml")
    assert config.folder == tmp_path / "kept"
    assert str(config.token_file) == "/etc/tokens.json"


def test_the_documented_limits_are_the_limits():
    page = (Path(__file__).parents[1] / "docs" / "production.md").read_text()
    for name, value in vars(Limits()).items():
        assert f"| `{name}` | {value:,} |" in page, name


def test_the_packaged_configuration_can_be_read():
    config = ServerConfig.read(Path(__file__).parents[1] / "packaging" / "server.toml")
    assert config.limits == Limits()
    assert config.streams[0].name == "frogs"


def test_an_address_that_is_not_here_is_told_apart_from_a_port_that_is_taken():
    with pytest.raises(TrimtabError, match=r"nosuchhost\.invalid, port 0: .*; choose another with --host\."):
        bind("nosuchhost.invalid", 0)
    with pytest.raises(TrimtabError, match="choose another with --host"):
        bind("203.0.113.1", 0)
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(TrimtabError, match="choose another with --port"):
            bind("127.0.0.1", taken.getsockname()[1])
