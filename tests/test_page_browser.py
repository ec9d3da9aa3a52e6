"""The page in a real browser: what people do with it, what they see when something is wrong, whether all can use it.

Skipped where Chromium or playwright is missing.
"""

import errno
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from page_server import LABELS, picture_of, served
from trimtab.serve import journal
from trimtab.serve.access import Access, Token, hash_of
from trimtab.serve.page.check_page import checks_of
from trimtab.serve.page.pages import TABS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no chromium on this machine", allow_module_level=True)

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "a-token-of-the-test"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("hub")) as server:
        server.tenant = server.stream(images=600, snapshot_every=250)
        server.stream("plain", thumbnails=False)
        yield server


@contextmanager
def window(browser, server, **options):
    """A page whose console must stay free of errors."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
    page = context.new_page()
    page.set_default_timeout(8000)
    page.said = []
    page.on("console", lambda message: page.said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.at = lambda path: page.goto(server.url + path)
    try:
        yield page
    finally:
        context.close()
    assert page.said == []


@pytest.fixture
def page(browser, server):
    with window(browser, server) as page:
        yield page


def notice(page):
    return page.locator("#notice .notice")


def test_overview_leads_to_a_stream_that_is_live(page, server):
    page.at("/")
    assert page.locator("tbody tr").count() == 2
    page.get_by_role("link", name="colors").click()
    page.get_by_text("Live", exact=True).wait_for()
    page.wait_for_selector(".chart canvas")
    assert page.locator(".chart canvas").count() == 2
    before = page.locator("#seen").inner_text()
    server.show(server.tenant, 24, seed=1)
    page.wait_for_function("before => document.getElementById('seen').innerText !== before", arg=before)
    assert page.locator("#recent li").count() == 20


def test_drop_an_image(page, server):
    page.at("/streams/colors/try")
    seen = server.tenant.summary()["seen"]
    page.set_input_files("#image", {"name": "red.jpg", "mimeType": "image/jpeg", "buffer": picture_of("red", 5)})
    page.locator("#tried h2").wait_for()
    assert page.locator("#tried h2").inner_text().startswith("red")
    assert "Only looked at" in page.locator("#tried").inner_text()
    assert server.tenant.summary()["seen"] == seen
    assert page.evaluate("document.getElementById('tried-picture').naturalWidth") == 32

    page.check("[name=learn]")
    page.evaluate(
        """bytes => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "blue.jpg", {type: "image/jpeg"}));
            document.getElementById("try").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
        }""",
        list(picture_of("blue", 6)),
    )
    page.locator("#tried h2", has_text="blue").wait_for()
    assert server.tenant.summary()["seen"] == seen + 1


def test_a_file_that_is_no_image_is_refused_in_a_sentence(browser, server):
    with window(browser, server) as page:
        page.at("/streams/colors/try")
        page.set_input_files("#image", {"name": "x.png", "mimeType": "image/png", "buffer": b"no image"})
        notice(page).wait_for()
        assert "is not an image" in notice(page).inner_text()
        page.said = [line for line in page.said if "422" not in line]  # the browser itself reports the status


def test_freeze_and_resume_by_keyboard(page, server):
    page.at("/streams/colors/flips")
    page.locator("#freeze").focus()
    page.keyboard.press("Enter")
    page.locator("#mode.frozen").wait_for()
    assert "learns nothing" in notice(page).inner_text()
    assert page.evaluate("document.activeElement.id") == "freeze"  # the focus stays where it was
    assert server.tenant.mode == "frozen"
    assert page.locator("form.say").count() == 0
    page.keyboard.press("Enter")
    page.locator("#mode.adapting").wait_for()
    assert server.tenant.mode == "adapting"


def test_correct_a_flip(page, server):
    page.at("/streams/colors/flips")
    card = page.locator("li.card:has(form.say)").first
    name = card.get_attribute("id")
    shown = card.locator(".pair button").nth(1).inner_text()
    card.locator(".pair button").nth(1).click()
    corrected = page.locator(f"#{name}.corrected")
    corrected.wait_for()
    assert f"You said: {shown}" in corrected.inner_text()
    assert server.tenant.history()["corrections"] >= 1
    other = page.locator("li.card:has(form.say)").first
    name = other.get_attribute("id")
    other.locator("summary").click()
    other.locator("select").select_option("yellow")
    other.get_by_role("button", name="It is", exact=True).click()
    page.locator(f"#{name}.corrected").wait_for()
    assert "You said: yellow" in page.locator(f"#{name}").inner_text()


def test_evict(page, server):
    page.at("/streams/colors/caches")
    button = page.locator(".evict").first
    name = button.get_attribute("aria-label")
    assert name.startswith("Evict image")
    button.focus()
    page.keyboard.press("Enter")
    notice(page).wait_for()
    assert "has left" in notice(page).inner_text()


def test_snapshots_and_rolling_back(page, server):
    page.at("/streams/colors/snapshots")
    page.fill("#note", "by the <test>")
    page.click("#take")
    page.get_by_text("by the <test>").first.wait_for()
    seen = server.tenant.summary()["seen"]
    server.show(server.tenant, 10, seed=3)
    page.click("#roll-back")
    assert page.evaluate("document.getElementById('roll-back-dialog').open")
    page.keyboard.press("Escape")
    assert not page.evaluate("document.getElementById('roll-back-dialog').open")
    page.click("#roll-back")
    page.locator("#roll-back-dialog").get_by_role("button", name="Roll back").click()
    page.get_by_text("Back at snapshot").wait_for()
    assert server.tenant.summary()["seen"] == seen
    assert len(server.tenant.snapshots()) >= 2
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").first.click()
    assert Path(download.value.path()).stat().st_size > 1000
    page.on("dialog", lambda dialog: dialog.accept())
    before = page.locator("tbody tr").count()
    page.get_by_role("button", name="Delete").last.click()
    page.get_by_text("was deleted").wait_for()
    assert page.locator("tbody tr").count() == before - 1


def test_check_fifty_by_keyboard(page, server):
    server.show(server.tenant, 300, seed=4)
    page.at("/streams/colors/check")
    page.click("#start")
    page.locator("#ask-title").wait_for()
    assert "adapted" not in page.locator("#check").inner_text()  # nothing leads the person
    check = checks_of(server.tenant).current

    def answer(number, key):
        page.get_by_text(f"{number} of 50").wait_for()
        assert page.evaluate("document.activeElement.id") == "labels"
        page.keyboard.press(key)

    for number, key in enumerate(("1", "u", "n", "2", "Backspace"), start=1):
        answer(number, key)
    answer(4, "3")
    page.get_by_text("5 of 50").wait_for()
    assert [asked.truth for asked in check.asked[:5]] == [LABELS[0], None, "", LABELS[2], None]
    page.locator("#content").focus()
    page.keyboard.press("1")  # keys are for the form alone
    for index in range(4, 49):  # the rest as the form would say it
        check.say(index, LABELS[index % 4])
    page.reload()
    answer(50, "4")
    page.locator(".interval").wait_for()
    words = page.locator("#check").inner_text()
    assert "49 were labeled" in words
    assert "1 could not be named" in words
    assert words.count("%") >= 6
    assert page.get_by_role("heading", name="Checks so far").count() == 1


def test_pictures_can_be_deleted(page, server):
    page.at("/streams/colors/caches?page=2")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete all pictures").click()
    page.get_by_text("pictures were deleted").wait_for()
    assert list((server.tenant.folder / "thumbnails").rglob("*.jpg")) == []
    page.at("/streams/colors/flips")
    page.locator("img.picture").first.wait_for()  # a sign instead, and no error in the console


def test_everybody_can_use_it(browser, server):
    """Landmarks, names, roles, contrast in light and dark: axe-core finds nothing wrong. And it fits a phone."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    contrast = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}

    def found(options=None):
        violations = axe.run(page, options=options).response["violations"]
        return [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in violations]

    with window(browser, server, bypass_csp=True) as page:
        for path in ("/", *(f"/streams/colors{tab}" for _, tab in TABS)):
            page.at(path)
            assert (path, found({"resultTypes": ["violations"]})) == (path, [])
            page.emulate_media(color_scheme="dark")
            assert (path, found(contrast)) == (path, [])
            page.emulate_media(color_scheme="light")
            page.set_viewport_size({"width": 360, "height": 740})
            page.wait_for_function("document.documentElement.scrollWidth <= 360")  # once the charts have followed
            page.set_viewport_size({"width": 1200, "height": 900})


def test_a_server_that_is_gone_and_comes_back(browser, tmp_path):
    with served(tmp_path) as server:
        server.stream(images=40)
        with window(browser, server) as page:
            page.at("/streams/colors")
            page.get_by_text("Live", exact=True).wait_for()
            server.stop()
            page.get_by_text("The server cannot be reached").wait_for(timeout=15000)
            assert page.locator("#live").get_attribute("data-state") == "lost"
            server.start()
            page.get_by_text("Live", exact=True).wait_for(timeout=20000)
            assert page.locator("#lost").inner_text() == ""
            # A form from before the restart is refused, and says what to do.
            page.click("#freeze")
            page.get_by_text("load it again").wait_for()
            page.said = [line for line in page.said if "ERR_" not in line and "403" not in line]


def test_a_stream_that_was_deleted(browser, server):
    server.stream("doomed", images=20)
    with window(browser, server) as page:
        page.at("/streams/doomed")
        page.get_by_text("Live", exact=True).wait_for()
        server.hub.delete("doomed")
        page.click("#freeze")
        notice(page).wait_for()
        assert "no stream" in notice(page).inner_text().lower() or "deleted" in notice(page).inner_text().lower()
        page.at("/streams/doomed")
        assert page.get_by_role("heading", name="Not here").count() == 1
        page.said = [line for line in page.said if "404" not in line]


def test_a_full_disk_is_a_banner_until_there_is_space(page, server, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    tenant = server.stream("full", images=20)
    page.at("/streams/full/flips")
    page.get_by_text("Live", exact=True).wait_for()
    with monkeypatch.context() as patch:
        patch.setattr(journal, "os", SimpleNamespace(**(vars(os) | {"write": full})))
        server.show(tenant, 1, seed=8)
        page.get_by_role("alert").filter(has_text="Not learning").wait_for()
        assert "the disk is full" in page.locator("#trouble").inner_text()
    server.show(tenant, 1, seed=9)
    page.wait_for_function("() => document.getElementById('trouble').innerText === ''")


def test_tokens(browser, tmp_path):
    access = Access([Token("t", "admin", ("*",), hash_of(TOKEN)), Token("c", "classify", ("colors",), hash_of("c"))])
    with served(tmp_path, access) as server:
        server.stream(images=60)
        server.stream("secret")
        with window(browser, server) as page:
            page.at("/streams/colors/flips")
            page.fill("#token", "wrong")
            page.keyboard.press("Enter")
            page.get_by_text("does not know that token").wait_for()
            page.said = [line for line in page.said if "401" not in line]
            page.fill("#token", TOKEN)
            page.keyboard.press("Enter")
            page.wait_for_url("**/streams/colors/flips")
            (cookie,) = [one for one in page.context.cookies() if one["name"] == "trimtab_token"]
            assert cookie["httpOnly"]
            assert cookie["sameSite"] == "Strict"
            page.get_by_text("Live", exact=True).wait_for()
            page.get_by_role("button", name="Log out").click()
            page.wait_for_url("**/login")
            page.fill("#token", "c")
            page.keyboard.press("Enter")
            page.wait_for_url(f"{server.url}/")
            assert page.locator("tbody tr").count() == 1  # only its own stream
            page.get_by_role("link", name="colors").click()
            assert page.locator("#freeze").count() == 0
            assert page.locator("img.picture").count() == 0
