"""The page in a real Chromium, talking to the real service: what a person types, points at, corrects and replays."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from browser import chromium, served
from playwright.sync_api import Browser, Locator, Page, Route, expect
from waiting import LIMIT

from somdst.corpora.jsonlines import dialogue_from_json
from somdst.service.api_keys import load_keys
from somdst.service.configuration import Settings

FILES = Path(__file__).parents[1] / "somdst" / "service" / "page"
LAPTOP: Any = {"width": 1366, "height": 850}
PHONE: Any = {"width": 360, "height": 740}
Visit = Callable[..., Page]

expect.set_options(timeout=1000 * LIMIT)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(Settings(database=str(tmp_path_factory.mktemp("page") / "conversations.sqlite"))) as url:
        yield url


@pytest.fixture
def visit(browser: Browser, service: str) -> Iterator[Visit]:
    """Opens the page in a browser of its own. Nothing may be written to the console, which tells CSP violations too."""
    said: list[str] = []
    contexts = []

    def open_page(path: str = "/", *, url: str = service, viewport: Any = LAPTOP, **options: Any) -> Page:
        context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
        context.set_default_timeout(1000 * LIMIT)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    expected = ("Failed to load resource",)  # what the browser says of any 4xx
    assert [line for line in said if not line.startswith(expected)] == []


def tell(page: Page, user: str, system: str = "") -> None:
    turns = page.locator(".turn:not(.waiting)")
    before = turns.count()
    page.locator("#system").fill(system)
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("User", exact=True).press("Enter")
    expect(turns).to_have_count(before + 1)


def row(page: Page, slot: str) -> Locator:
    return page.locator(f'.row[data-slot="{slot}"]')


def value(page: Page, slot: str) -> Locator:
    return row(page, slot).locator(".value")


def problem(page: Page) -> Locator:
    return page.locator("#problem p")


def state(page: Page, service: str) -> dict[str, str]:
    id = page.url.partition("#")[2]
    found: dict[str, str] = httpx.get(f"{service}/v1/conversations/{id}", timeout=LIMIT).json()["state"]
    return found


# A conversation that is typed


def test_a_typed_turn_changes_the_memory(visit: Visit, service: str) -> None:
    page = visit()
    expect(page.get_by_role("heading", name="Watch a memory form")).to_be_visible()
    tell(page, "hotel area north and any hotel stars")
    expect(page.get_by_role("heading", name="Watch a memory form")).to_be_hidden()
    expect(value(page, "hotel-area")).to_contain_text("north")
    expect(row(page, "hotel-area").locator(".badge")).to_have_text("update")
    expect(row(page, "hotel-area").locator(".probability")).to_contain_text("95%")
    expect(row(page, "hotel-stars").locator(".badge")).to_have_text("dontcare")
    expect(page.get_by_role("status")).to_have_text("Turn 1: hotel area is north, hotel stars is any.")

    tell(page, "no hotel stars", system="Is hotel area east fine?")
    expect(row(page, "hotel-area").locator(".before")).to_contain_text("north")
    expect(value(page, "hotel-area")).to_contain_text("east fine")
    expect(row(page, "hotel-stars").locator(".badge")).to_have_text("delete")
    expect(page.locator(".utterance.system .text")).to_have_text("Is hotel area east fine?")
    assert state(page, service) == {"hotel-area": "east fine"}
    colours = {
        row(page, slot).locator(".badge").evaluate("e => getComputedStyle(e).color")
        for slot in ("hotel-area", "hotel-stars")
    }
    assert len(colours) == 2, "operations differ in colour, besides their word and icon"

    page.reload()  # the address holds the conversation
    expect(page.locator(".turn:not(.waiting)")).to_have_count(2)
    page.get_by_role("button", name="New").click()
    expect(page.locator(".turn:not(.waiting)")).to_have_count(0)


def test_pointing_at_a_value_lights_up_its_words(visit: Visit) -> None:
    page = visit()
    lit = page.locator("#said mark")
    tell(page, "😀😀 the train day friday, please")
    tell(page, "thanks", system="So hotel name acorn guest house?")
    tell(page, "taxi destination like hotel name")
    row(page, "train-day").hover()
    expect(lit).to_have_text("friday")
    value(page, "hotel-name").focus()
    expect(lit).to_have_text("acorn guest house")
    assert lit.evaluate("e => e.closest('.text').dataset.role") == "system"
    value(page, "taxi-destination").focus()  # copied from a slot: that slot, and where that came from
    expect(row(page, "hotel-name")).to_have_class(re.compile("lit"))
    expect(lit).to_have_text("acorn guest house")
    page.locator("#user").focus()
    page.mouse.move(5, 5)
    expect(lit).to_have_count(0)
    expect(page.locator(".text").first).to_have_text("😀😀 the train day friday, please")


def test_correct_pin_take_back_undo_and_why(visit: Visit, service: str) -> None:
    page = visit()
    tell(page, "hotel area north and hotel stars 4")
    page.get_by_role("button", name="Correct hotel area").click()
    page.get_by_label("New value of hotel area").fill("south")
    page.get_by_role("checkbox", name="Pin").check()
    page.get_by_role("button", name="Save").click()
    expect(value(page, "hotel-area")).to_contain_text("south")
    expect(value(page, "hotel-area")).to_be_focused()
    expect(row(page, "hotel-area").locator(".badge")).to_have_text("corrected")
    expect(page.get_by_role("button", name="Unpin hotel area")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Pin hotel stars").click()
    expect(page.get_by_role("button", name="Unpin hotel stars")).to_be_focused()

    value(page, "hotel-area").click()
    why = row(page, "hotel-area").get_by_role("group", name="History of hotel area")
    expect(why.locator("li")).to_have_count(2)
    expect(why.locator("li").first).to_contain_text("Turn 1: rehearsed wrote “north”, 95% sure.")
    expect(why.locator("mark")).to_have_text("north")
    expect(why.locator("li").last).to_contain_text("A person wrote “south” instead of “north”.")

    undo, redo = page.locator("#undo"), page.locator("#redo")
    undo.click()
    undo.click()
    expect(value(page, "hotel-area")).to_contain_text("north")
    redo.click()
    expect(value(page, "hotel-area")).to_contain_text("south")
    page.get_by_role("button", name="Take back: hotel area was nothing").click()
    page.get_by_role("button", name="Take back: hotel stars was nothing").click()
    expect(value(page, "hotel-stars")).to_contain_text("nothing")
    assert state(page, service) == {"hotel-area": "north"}, "the correction was undone, the turn's write deleted"
    undo.click()
    undo.click()
    expect(page.locator(".turn:not(.waiting)")).to_have_count(0)
    expect(undo).to_have_attribute("aria-disabled", "true")


def test_an_empty_slot_can_be_set(visit: Visit, service: str) -> None:
    page = visit()
    page.get_by_label("All slots").check()
    expect(page.locator(".row")).to_have_count(30)
    page.get_by_role("button", name="Set train day").click()
    page.get_by_role("button", name="Any", exact=True).click()
    expect(value(page, "train-day")).to_contain_text("any")
    page.get_by_role("button", name="Correct train day").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Correct train day")).to_be_focused()
    assert state(page, service) == {"train-day": "dontcare"}


def test_what_is_not_sure_is_asked(visit: Visit, service: str) -> None:
    page = visit()
    tell(page, "maybe hotel area north and maybe train day friday")
    question = page.get_by_role("group", name="Question about hotel area")
    expect(question).to_contain_text("Did you mean north for the part of town of the hotel?")
    question.hover()
    expect(page.locator("#said mark")).to_have_text("north")
    assert state(page, service) == {}
    tell(page, "yes")
    page.get_by_role("button", name="Yes, hotel area").click()
    expect(value(page, "hotel-area")).to_contain_text("north")
    page.get_by_role("button", name="No, train day").click()
    expect(page.locator(".question")).to_have_count(0)
    value(page, "hotel-area").focus()  # confirmed at turn 2, said at turn 1
    expect(page.locator('#said .text[data-turn="1"] mark')).to_have_text("north")
    assert state(page, service) == {"hotel-area": "north"}


# A conversation that is replayed


def test_an_example_is_replayed_turn_by_turn(visit: Visit) -> None:
    page = visit()
    page.get_by_role("button", name="A table for dinner").click()
    following = page.get_by_role("button", name="Next turn")
    expect(following).to_be_focused()
    expect(value(page, "restaurant-food")).to_contain_text("indian")
    following.press("Enter")
    expect(value(page, "restaurant-area")).to_contain_text("any")
    expect(page.locator("#replay")).to_contain_text("2 of 5")
    following.click()
    following.click()
    expect(page.locator("#replay")).to_contain_text("4 of 5")
    page.locator("#undo").click()
    expect(page.locator("#replay")).to_contain_text("3 of 5")
    page.get_by_role("button", name="Play all").click()
    expect(page.locator("#replay")).to_contain_text("End of the dialogue.")
    expect(page.locator(".turn:not(.waiting)")).to_have_count(5)

    written = page.locator('tr:has(th:text-is("book time")) td')
    assert [cell.text_content() for cell in written.all()] == ["", "", "19:00", "20:15", "20:15"]
    expect(page.locator(".grid .written.op-dontcare")).to_have_text("any")
    page.get_by_role("button", name="End the replay").click()
    expect(page.locator("#replay")).to_be_hidden()


def test_the_slider_shows_any_past_turn(visit: Visit) -> None:
    page = visit()
    for text in ("hotel area north", "hotel area east", "hotel area west"):
        tell(page, text)
    slider = page.get_by_label("Show turn")
    slider.press("ArrowLeft")
    expect(value(page, "hotel-area")).to_contain_text("east")
    expect(row(page, "hotel-area").locator(".before")).to_contain_text("north")
    expect(slider).to_have_attribute("aria-valuetext", "after turn 2 of 3")
    expect(page.locator(".turn.later")).to_have_count(1)
    expect(page.get_by_role("button", name="Correct hotel area")).to_have_count(0)
    slider.press("Home")
    expect(page.locator(".row")).to_have_count(0)
    page.locator(".grid").get_by_role("button", name="Turn 1").click()
    expect(value(page, "hotel-area")).to_contain_text("north")
    page.get_by_role("button", name="Back to now").click()
    expect(value(page, "hotel-area")).to_contain_text("west")
    expect(page.get_by_role("button", name="Correct hotel area")).to_be_visible()


@pytest.mark.parametrize(
    ("pasted", "said"),
    [
        ("user: hotel area north\nplease\nSystem: Anything else?\nUSER: no", ["hotel area north\nplease", "no"]),
        (json.dumps({"turns": [{"system": "Hi!", "user": "hotel stars 4"}]}), ["hotel stars 4"]),
        (json.dumps([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]), ["a"]),
        ("hello", 'Line 1 begins with neither "user:" nor "system:": say who speaks.'),
        ('{"turns": ', "This looks like JSON but is not valid"),
        ('{"turns": []}', "This JSON has no turns"),
        (" ", "There is nothing here yet"),
    ],
)
def test_dialogues_that_people_paste(reader: Page, pasted: str, said: list[str] | str) -> None:
    found = reader.evaluate(
        "async text => { const { readDialogue } = await import('/static/dialogues.js');"
        " try { return readDialogue(text).map(turn => turn.user) } catch (problem) { return problem.message } }",
        pasted,
    )
    assert found == said if isinstance(said, list) else said in found


@pytest.fixture(scope="module")
def reader(browser: Browser, service: str) -> Iterator[Page]:
    with browser.new_page() as page:
        page.set_default_timeout(1000 * LIMIT)
        page.goto(service)
        yield page


def test_a_pasted_dialogue_is_replayed_and_copied(visit: Visit, service: str) -> None:
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Paste a dialogue").click()
    page.get_by_label("Dialogue", exact=True).fill("hello")
    page.get_by_role("button", name="Replay it").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("say who speaks")
    page.get_by_label("Dialogue", exact=True).fill("user: it's hotel area north\nsystem: ok\nuser: hotel stars 4")
    page.get_by_role("button", name="Replay it").click()
    page.get_by_role("button", name="Next turn").click()
    expect(value(page, "hotel-stars")).to_contain_text("4")

    page.get_by_role("button", name="JSON").click()
    expect(page.get_by_role("status")).to_have_text("JSON copied")
    copied = dialogue_from_json(json.loads(page.evaluate("navigator.clipboard.readText()")), where="the clipboard")
    assert [len(state) for state in copied.states()] == [1, 2]
    assert copied.turns[1].system == "ok"
    page.get_by_role("button", name="curl").click()
    expect(page.get_by_role("status")).to_have_text("curl command copied")
    command = page.evaluate("navigator.clipboard.readText()")
    assert "/v1/track" in command
    if shutil.which("curl"):
        answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
        assert json.loads(answer)["state"] == {"hotel-area": "north", "hotel-stars": "4"}


def test_earlier_conversations_are_opened_and_erased(visit: Visit) -> None:
    page = visit()
    tell(page, "hotel name the one to find again")
    page.get_by_role("button", name="New").click()
    page.get_by_role("button", name="Conversations").click()
    page.get_by_role("button", name="the one to find again").click()
    expect(value(page, "hotel-name")).to_contain_text("the one to find again")
    page.get_by_role("button", name="Conversations").click()
    item = page.locator("#recent-list li", has_text="the one to find again")
    item.get_by_role("button", name="Erase").click()
    expect(item).to_have_count(0)
    expect(page.locator(".turn:not(.waiting)")).to_have_count(0)


# What goes wrong


def test_errors_are_sentences_and_nothing_is_lost(visit: Visit, service: str) -> None:
    page = visit()
    user = page.get_by_label("User", exact=True)
    user.press("Enter")
    expect(problem(page)).to_have_text(re.compile("The turn is empty: it needs what the user said"))
    keys: list[str] = []

    def hang_up(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        route.fetch()  # the service tracks the turn, and its answer is lost on the way
        route.abort()

    page.route("**/turns", hang_up)
    user.fill("hotel area north")
    user.press("Enter")
    expect(problem(page)).to_have_text(re.compile("The service does not answer: check that it is still running"))
    expect(user).to_have_value("hotel area north")
    page.unroute("**/turns")
    with page.expect_request("**/turns") as again:
        user.press("Enter")
    assert again.value.headers["idempotency-key"] == keys[0]
    expect(value(page, "hotel-area")).to_contain_text("north")
    expect(problem(page)).to_be_hidden()
    expect(page.locator(".turn:not(.waiting)")).to_have_count(1)

    id = page.url.partition("#")[2]
    httpx.post(
        f"{service}/v1/conversations/{id}/turns", json={"user": "hotel stars 4"}, timeout=LIMIT
    ).raise_for_status()
    page.get_by_role("button", name="Pin hotel area").click()
    expect(problem(page)).to_have_text(re.compile("Somebody else changed this conversation in the meantime"))
    expect(value(page, "hotel-stars")).to_contain_text("4")

    # In a page of its own: this one would read the address, complain and clear it, whenever it gets to it.
    expect(problem(visit(f"/#{'0' * 32}"))).to_have_text(re.compile("^There is no conversation 0{32}"))


def test_what_is_typed_never_runs(visit: Visit) -> None:
    page = visit()
    page.add_init_script("window.ran = false")
    page.reload()
    attacks = [
        "<script>window.ran = true</script>",
        "<img src=x onerror='window.ran = true'>",
        '"><svg onload="window.ran = true">',
        "javascript:window.ran=true",
    ]
    for attack in attacks:
        tell(page, f"hotel name {attack}", system=attack)
        expect(page.locator(".utterance.system .text").last).to_have_text(attack)
    value(page, "hotel-name").click()
    expect(page.locator(".why li")).to_have_count(len(attacks))
    page.get_by_role("button", name="Correct hotel name").click()
    page.get_by_label("New value of hotel name").fill(attacks[1])
    page.get_by_role("button", name="Save").click()
    expect(value(page, "hotel-name")).to_contain_text(attacks[1])
    page.get_by_role("button", name="Conversations").click()
    expect(page.locator("#recent-list li").first).to_contain_text(attacks[1])
    assert page.evaluate("window.ran") is False
    assert page.locator("main :is(script, img, a, iframe), main svg[onload]").count() == 0


def test_the_policy_stops_a_script_that_gets_in_anyway(browser: Browser, service: str) -> None:
    with browser.new_page() as page:
        page.set_default_timeout(1000 * LIMIT)
        policy = page.goto(service).headers["content-security-policy"]  # type: ignore[union-attr]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'")
        assert page.request.get(f"{service}/static/app.js").headers["cache-control"] == "no-cache"
        blocked = page.evaluate(
            "() => new Promise((done) => { const blocked = [];"
            " document.addEventListener('securitypolicyviolation', (event) => {"
            " blocked.push(event.effectiveDirective); if (blocked.length === 2) done(blocked) });"
            " const script = document.createElement('script'); script.textContent = 'window.ran = true';"
            " document.body.append(script); document.body.insertAdjacentHTML('beforeend',"
            " '<img src=data:, onerror=\"window.ran = true\">') })"
        )
        assert sorted(blocked) == ["script-src-attr", "script-src-elem"]
        assert page.evaluate("window.ran") is None


def test_a_service_with_keys_asks_for_one(visit: Visit, tmp_path: Path) -> None:
    keys = load_keys(None, {"SOMDST_API_KEYS": "team:a-key-of-thirty-two-letters-long"})
    with served(Settings(database=str(tmp_path / "keys.sqlite"), keys=keys)) as url:
        page = visit(url=url)
        page.locator("#key").fill("wrong")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("This API key is not known")
        page.locator("#key").fill("a-key-of-thirty-two-letters-long")
        page.get_by_role("button", name="Continue").click()
        tell(page, "hotel area north")
        expect(value(page, "hotel-area")).to_contain_text("north")


# For everybody


def test_everything_with_the_keyboard(visit: Visit) -> None:
    page = visit()
    page.wait_for_selector("body[data-ready]")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the conversation")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("User", exact=True)).to_be_focused()
    page.keyboard.type("hotel area north")
    page.keyboard.press("Enter")
    expect(value(page, "hotel-area")).to_be_visible()
    _tab_to(page, value(page, "hotel-area"))
    expect(page.locator("#said mark")).to_have_text("north")
    page.keyboard.press("Enter")
    expect(value(page, "hotel-area")).to_have_attribute("aria-expanded", "true")
    _tab_to(page, page.get_by_role("button", name="Correct hotel area"))
    page.keyboard.press("Enter")
    page.keyboard.type("south")
    page.keyboard.press("Enter")
    expect(value(page, "hotel-area")).to_contain_text("south")
    _tab_to(page, page.get_by_label("Show turn"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#as-of")).to_have_text("before turn 1")
    width = page.evaluate("() => getComputedStyle(document.activeElement).outlineWidth")
    assert width == "2px", "what has the focus can be seen"


def _tab_to(page: Page, target: Locator) -> None:
    for _ in range(30):
        page.keyboard.press("Tab")
        if target.evaluate("e => e === document.activeElement"):
            return
    raise AssertionError(f"the tab key does not lead to {target}")


def test_everything_has_a_name(visit: Visit) -> None:
    page = visit()
    tell(page, "hotel area north and maybe train day friday")
    page.get_by_label("All slots").check()
    page.get_by_role("button", name="Correct hotel area").click()
    nameless = page.evaluate(
        "() => [...document.querySelectorAll('button, input, textarea, select')].filter(e => !("
        "e.getAttribute('aria-label') || e.innerText.trim() || e.textContent.trim() || e.labels?.length"
        ")).map(e => e.outerHTML)"
    )
    assert nameless == []
    twice = "() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id);"
    assert page.evaluate(f"{twice} return ids.filter((id, i) => ids.indexOf(id) !== i) }}") == []


def test_a_phone_never_scrolls_sideways(visit: Visit) -> None:
    page = visit(viewport=PHONE, has_touch=True, is_mobile=True)

    def fits() -> None:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]

    page.wait_for_selector("body[data-ready]")
    fits()
    page.get_by_role("button", name="A weekend for two").click()
    for _ in range(3):
        page.get_by_role("button", name="Next turn").click()
    expect(page.locator(".turn:not(.waiting)")).to_have_count(4)
    tell(page, f"hotel name {'x' * 300} and maybe train day friday", system="y" * 300)
    page.get_by_role("button", name="Correct hotel name").tap()
    fits()
    page.keyboard.press("Escape")
    value(page, "hotel-name").tap()
    expect(page.locator(".why")).to_be_visible()
    fits()
    page.get_by_role("button", name="Conversations").click()
    fits()


def test_dark_is_dark(visit: Visit) -> None:
    page = visit(color_scheme="dark")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(19, 21, 25)"
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate(ground) == "rgb(244, 244, 241)"
    page.reload()
    assert page.evaluate(ground) == "rgb(244, 244, 241)", "the choice is kept"


# The files themselves


COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", (FILES / "style.css").read_text(encoding="utf-8")
    )
}
TONES = ("update", "dontcare", "delete", "person", "pending")
PAIRS = [
    *((ink, ground) for ink in ("ink", "muted", "accent") for ground in ("ground", "surface", "sunken")),
    *((tone, ground) for tone in TONES for ground in (f"{tone}-soft", "surface")),
    *((ink, f"{tone}-soft") for ink in ("ink", "muted") for tone in TONES),
    *(("muted", "user"), ("ink", "user"), ("accent-ink", "accent"), ("mark-ink", "mark")),
]


@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_text_has_contrast(ink: str, ground: str) -> None:
    for theme in (0, 1):
        bright, dim = sorted((_luminance(COLOURS[name][theme]) for name in (ink, ground)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (ink, ground, ("light", "dark")[theme])


def _luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_no_file_parses_html_or_asks_another_host() -> None:
    for path in FILES.iterdir():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            path
        )
        assert not re.search(r"(?:https?:)?//(?!www\.w3\.org/)[a-z0-9-]+\.[a-z]{2,}", text), path
    html = (FILES / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", html)


def test_the_pictures_are_there_and_small() -> None:
    docs = FILES.parents[2] / "docs"
    shown = re.findall(r"\((screenshots/[\w-]+\.png)\)", (docs / "page.md").read_text(encoding="utf-8"))
    assert {docs / name for name in shown} == set((docs / "screenshots").iterdir())
    assert all((docs / name).stat().st_size < 300_000 for name in shown)
