"""The page without a browser: what it sends, to whom, and what it refuses."""

import hashlib
import re
from html.parser import HTMLParser

import pytest

from page_server import LABELS, client, picture_of, served
from trimtab.serve.access import COOKIE, Access, Token, hash_of
from trimtab.serve.page import shown, words
from trimtab.serve.page.alarms import alarms
from trimtab.serve.page.pages import STATIC, TABS
from trimtab.serve.page.safety import local_path

TEMPLATES = STATIC.parent / "templates"
OWN = [*TEMPLATES.glob("*.html"), *STATIC.glob("*.*")]
ACCESS = Access(
    [Token("a", "admin", ("*",), hash_of("admin")), Token("c", "classify", ("colors",), hash_of("classify"))]
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("hub"), ACCESS) as server:
        server.tenant = server.stream(images=300)
        yield server


@pytest.fixture
def admin(server):
    with client(server, cookies={COOKIE: "admin"}) as browser:
        yield browser


def proof(browser, path="/streams/colors"):
    return re.search(r'name="proof" value="(\w+)"', browser.get(path).text)[1]


def test_vendored_files_are_the_published_ones():
    vendor = STATIC / "vendor"
    sums = dict(line.split()[::-1] for line in (vendor / "SHA256SUMS").read_text().splitlines())
    there = {path.name for path in vendor.iterdir()} - {"SHA256SUMS", "README.md"}
    assert sums.keys() == there
    for name, digest in sums.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name
    base = (TEMPLATES / "base.html").read_text() + (TEMPLATES / "learning.html").read_text()
    assert all(name in base for name in there if not name.endswith(".txt"))
    assert {name.split("-")[0].split(".")[0] for name in there if name.endswith(".txt")} == {"htmx", "uplot"}


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.name)
def test_nothing_comes_from_another_host_and_nothing_is_inline(file):
    text = file.read_text().replace("http://www.w3.org/2000/svg", "")
    assert "//cdn" not in text
    assert not re.search(r"https?://", text)
    if file.suffix == ".html":
        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:", text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text))


class Outline(HTMLParser):
    """Ids, and how the tags of a page are nested."""

    EMPTY = ("meta", "link", "input", "img", "br", "rect", "line", "circle")

    def __init__(self, text):
        super().__init__()
        self.ids, self.open, self.headings = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.ids += [value for name, value in attributes if name == "id"]
        self.headings += [tag] if tag in ("h1", "h2", "h3") else []
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY and tag != "option":
            while self.open[-1] == "option":
                self.open.pop()
            assert self.open.pop() == tag


@pytest.mark.parametrize("path", ["/", *(f"/streams/colors{tab}" for _, tab in TABS)])
def test_pages_are_whole(admin, path):
    answer = admin.get(path)
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    outline = Outline(answer.text)
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.headings[0] == "h1"
    assert outline.headings.count("h1") == 1


def test_no_page_prints_an_estimated_accuracy(admin):
    for _, tab in TABS:
        text = re.sub(r"<[^>]+>", " ", admin.get(f"/streams/colors{tab}").text).lower()
        for sentence in re.split(r"[.;:]\s", text):
            if "accuracy" in sentence:
                assert not re.search(r"\d %", sentence), sentence


def test_forms_need_the_proof_of_a_page(server, admin):
    for given in ({}, {"proof": "0" * 64}):
        answer = admin.post("/streams/colors/freeze", data=given)
        assert answer.status_code == 403
        assert "load it again" in answer.text
    with client(server, cookies={COOKIE: "classify"}) as other:
        theirs = proof(other, "/streams/colors/try")
    assert admin.post("/streams/colors/freeze", data={"proof": theirs}).status_code == 403
    mine = {"proof": proof(admin)}
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert admin.post("/streams/colors/freeze", data=mine, headers=headers).status_code == 403
    assert server.tenant.mode == "adapting"
    answer = admin.post("/streams/colors/freeze", data=mine)
    assert answer.status_code == 200
    assert "learns nothing" in answer.text
    assert "learns nothing" not in admin.get("/streams/colors").text  # said once
    admin.post("/streams/colors/resume", data=mine)
    assert server.tenant.mode == "adapting"


def test_what_a_token_may(server):
    with client(server) as stranger:
        assert "Log in" in stranger.get("/streams/colors").text
        assert stranger.get("/streams/colors", headers={"hx-request": "true"}).status_code == 401
        assert stranger.post("/streams/colors/freeze").status_code == 403
    with client(server, cookies={COOKIE: "classify"}) as browser:
        page = browser.get("/streams/colors").text
        assert 'id="freeze"' not in page
        given = {"proof": proof(browser, "/streams/colors/try")}
        assert browser.post("/streams/colors/freeze", data=given).status_code == 403
        image = server.tenant.recent(1)[0]["id"]
        assert browser.get(f"/streams/colors/pictures/{image}").status_code == 403
        files = {"image": ("x.jpg", picture_of("green"), "image/jpeg")}
        assert "green" in browser.post("/streams/colors/try", data=given, files=files).text
    server.stream("secret")
    with client(server, cookies={COOKIE: "classify"}) as browser:
        assert "secret" not in browser.get("/").text
        assert browser.get("/streams/secret").status_code == 404
    assert server.tenant.mode == "adapting"


def test_labels_are_text_and_nothing_else(server, admin):
    labels = ("<script>alert(1)</script>", "a \"quoted\" 'one'", "red & blue")
    service = server.app.state.service
    settings = server.tenant.settings.to_dict() | {"name": "odd", "labels": labels}
    tenant = service.add(type(server.tenant.settings).from_dict(settings))
    server.show(tenant, 40)
    for _, tab in TABS:
        text = admin.get(f"/streams/odd{tab}").text
        assert "<script>alert" not in text
        Outline(text)
    server.hub.delete("odd")


def test_many_labels(server, admin):
    labels = [f"thing {n}" for n in range(60)]
    settings = server.tenant.settings.to_dict() | {"name": "many", "labels": labels}
    tenant = server.app.state.service.add(type(server.tenant.settings).from_dict(settings))
    server.show(tenant, 30)
    text = admin.post("/streams/many/check/start", data={"proof": proof(admin)}).text
    Outline(text)
    assert '<datalist id="classes">' in text
    assert text.count("<option") == 60
    assert admin.get("/streams/many/caches?wanted=thing 5").text.count("<h3>") == 6  # of 11 found
    assert tenant.drop_thumbnails() == 30 + 30  # also the pictures of the check
    assert "Start" in admin.get("/streams/many/check").text
    server.hub.delete("many")


def test_a_list_of_streams_wakes_none(tmp_path):
    with served(tmp_path) as server:
        for number in range(27):
            server.stream(f"s{number:02d}").sleep()
        with client(server) as browser:
            first, second = browser.get("/").text, browser.get("/?page=2").text
            assert first.count("<tr>") == 26
            assert second.count("<tr>") == 3
            assert "s26" in browser.get("/?wanted=26").text
            assert browser.get("/?page=99999999999").status_code == 200
        assert server.hub.figures()["awake"] == 0


def test_wrong_addresses_and_forms(admin):
    given = {"proof": proof(admin)}
    assert admin.get("/streams/nobody").status_code == 404
    assert admin.get("/streams/../etc/passwd").status_code == 404
    assert "sha256" not in admin.get("/streams/colors/pictures/..%2f..%2fstream.json").text
    assert "svg" in admin.get("/streams/colors/pictures/0-999999").headers["content-type"]
    assert admin.get("/streams/colors/snapshots/nothing/file").status_code == 404
    assert admin.get("/streams/colors/check/pictures/9").status_code == 404
    assert admin.get("/static/../routes.py").status_code == 404
    for path, fields, status in (
        ("feedback", {"id": "9-9", "label": "red"}, 404),
        ("feedback", {"id": "0-1", "label": "purple"}, 422),
        ("feedback", {}, 422),
        ("evict", {"id": "x"}, 404),
        ("restore", {"snapshot": "../x"}, 404),
        ("delete-snapshot", {"snapshot": "nothing"}, 404),
        ("check/say", {"index": "x", "label": "red"}, 422),
        ("check/teach", {}, 422),
    ):
        answer = admin.post(f"/streams/colors/{path}", data=given | fields, headers={"hx-request": "true"})
        assert (path, answer.status_code) == (path, status)
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.text.endswith(".")


def test_a_check_teaches_what_it_was_told(server, admin):
    given, before = {"proof": proof(admin)}, server.tenant.history()["corrections"]
    admin.post("/streams/colors/check/start", data=given)
    assert (server.tenant.folder / "check.json").exists()
    for index in range(50):
        said = given | {"index": str(index), "label": LABELS[index % 4]}
        admin.post("/streams/colors/check/say", data=said, follow_redirects=False)
    page = admin.get("/streams/colors/check").text
    assert "50 were labeled" in page
    assert "Teach the stream these 50 labels" in page
    taught = admin.post("/streams/colors/check/teach", data=given).text
    assert "stand for the classes you named" in taught
    assert "Teach the stream" not in taught
    assert server.tenant.history()["corrections"] == before + 50


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil", "\r\nX: y", "evil", None])
def test_a_login_leads_nowhere_else(wanted):
    assert local_path(wanted) == "/"


def test_words():
    assert words.count(12345.0) == "12,345"
    assert (words.percent(0.4166), words.percent(None)) == ("41.7 %", "–")
    assert (words.points(0.031), words.points(-0.5)) == ("+3.1", "−50.0")
    assert [words.size(n) for n in (999, 1500, 13_100_000, 5e12)] == ["999 bytes", "1.5 KB", "13.1 MB", "5000 GB"]
    assert words.ago(None) == "never"
    assert words.place(0.5, -0.5, 0.5) == "100.00%"


def history_of(**changes):
    shares = [0.25, 0.25, 0.25, 0.25]
    usual = {"agreement": [0.8] * 40, "drift": [0.01] * 40, "learned": [1.0] * 40, "seen": [*range(40)]}
    sizes = {"total": 640, "images_per_bin": 16}
    return usual | sizes | {"balance": {"labels": list(LABELS), "first": shares, "now": shares}} | changes


def test_alarms_fire_where_something_changed_and_nowhere_else():
    assert alarms({}, history_of()) == []
    (fall,) = alarms({}, history_of(agreement=[0.8, 0.82, 0.78] * 12 + [0.3, 0.3]))
    assert fall.title == "Agreement has fallen"
    (drift,) = alarms({}, history_of(drift=[None] * 3 + [0.01] * 30 + [0.09] * 3))
    assert "0.090" in drift.text
    (classes,) = alarms({}, history_of(balance={"labels": [], "first": [0.5, 0.5, 0, 0], "now": [1, 0, 0, 0]}))
    assert "50%" in classes.text
    near = {"labels": [], "first": [0.25] * 4, "now": [0.3, 0.2, 0.28, 0.22]}  # what chance does
    assert alarms({}, history_of(balance=near)) == []
    assert [alarm.kind for alarm in alarms({"fallen": True, "restarts": 1}, history_of())] == ["bad", "warn"]
    assert alarms({"hurts": True}, history_of())[0].title == "Adapting may hurt"
    refused = {"duplicate": 3, "quota": 400}
    (stopped,) = alarms({"refused": refused}, history_of(learned=[1.0] * 20 + [0.0] * 8))
    assert stopped.title == "Hardly anything is learned"
    assert "quota = 0" in stopped.text
    (copies,) = alarms({"refused": {"duplicate": 30, "quota": 4}}, history_of(learned=[0.0] * 8))
    assert "quota" not in copies.text
    assert alarms({"refused": refused}, history_of(learned=[1.0] * 20 + [0.0] * 6)) == []


def test_charts_show_full_bins_only():
    past = history_of(flips=[0.1] * 40, collapse=[0.1] * 39 + [0.0], total=635)
    lines = shown.series(past)
    assert len(lines["seen"]) == len(lines["agreement"]) == len(lines["collapse"]) == 39
    assert lines["collapse"][-1] == 0.1
    assert lines["images_per_point"] == 128
