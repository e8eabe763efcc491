"""Bring your schema, in a real Chromium: as a form, as text, as a file; checked while typing, then chatted with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browser import served
from playwright.sync_api import Locator, Page, expect
from scripted import AnyRules, RulePredictor
from test_page import FILES, PHONE, Visit, browser, row, tell, value, visit  # noqa: F401
from waiting import LIMIT

from somdst import Schema, Tracker
from somdst.service.configuration import Settings

EXAMPLES = Path(__file__).parents[1] / "examples" / "schemas"
YAML = "domains:\n  bike:\n    day: {description: when to ride}\n    helmet: [yes, no]\n"
JSON_SCHEMA = {
    "title": "table",
    "type": "object",
    "properties": {"guests": {"description": "how many people", "type": "string"}, "place": {"enum": ["in", "out"]}},
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(database=str(tmp_path_factory.mktemp("schemas") / "conversations.sqlite"))
    with served(settings, Tracker(AnyRules(), threshold=0.5)) as url:
        yield url


def open_dialog(page: Page) -> Locator:
    page.locator("body[data-ready]").wait_for()
    page.get_by_role("banner").get_by_role("button", name="Your own assistant").click()
    dialog = page.get_by_role("dialog", name="Your own assistant")
    expect(dialog).to_be_visible()
    return dialog


def checked(page: Page) -> Locator:
    return page.locator("#schema-check")


def write_row(page: Page, number: int, **fields: str) -> None:
    group = page.get_by_role("group", name=f"Slot {number}", exact=True)
    for label, text in fields.items():
        group.get_by_label({"values": "Allowed values"}.get(label, label.capitalize()), exact=True).fill(text)


def stored(page: Page, service: str) -> dict[str, object]:
    id = page.url.partition("#")[2]
    found: dict[str, object] = httpx.get(f"{service}/v1/conversations/{id}", timeout=LIMIT).json()
    return found


def test_a_form_and_then_a_chat(visit: Visit, service: str) -> None:  # noqa: F811
    page = visit()
    dialog = open_dialog(page)
    expect(checked(page)).to_have_text("Add a slot: a name is enough, and a description helps.")
    write_row(page, 1, topic="pizza", slot="size", values="small, large")
    expect(checked(page)).to_have_text(
        "Ready: 1 slot about pizza. pizza-size has no description: say in a few words what it is."
    )
    page.get_by_role("group", name="Slot 1").get_by_label("Allowed values").press("Enter")
    expect(page.get_by_role("group", name="Slot 2").get_by_label("Slot", exact=True)).to_be_focused()
    write_row(page, 2, slot="size", description="again")
    expect(checked(page)).to_have_text("Two slots are called pizza size: rename one of them.")
    write_row(page, 2, slot="Size")
    expect(checked(page)).to_contain_text("apart from capitals, spaces and underscores")
    write_row(page, 2, slot="topping", description="what is on it")
    write_row(page, 1, description="how large it is")
    expect(checked(page)).to_have_text("Ready: 2 slots about pizza.")
    dialog.get_by_role("button", name="Start chatting").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("heading", name="Your assistant is ready")).to_be_visible()
    expect(page.get_by_label("User", exact=True)).to_be_focused()
    expect(page.locator("#model")).to_have_text("rules · your pizza · 2 slots")
    tell(page, "pizza size large and pizza topping ham, hotel area north")
    expect(value(page, "pizza-size")).to_contain_text("large")
    expect(row(page, "hotel-area")).to_have_count(0)
    assert stored(page, service)["state"] == {"pizza-size": "large", "pizza-topping": "ham"}
    expect(page.get_by_role("button", name="Undo", exact=True)).to_have_attribute("aria-disabled", "false")
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_role("button", name="Undo", exact=True)).to_have_attribute("aria-disabled", "true")
    page.reload()
    expect(page.locator("#model")).to_have_text("rules · your pizza · 2 slots")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (YAML, "Ready: 2 slots about bike. bike-helmet has no description: say in a few words what it is."),
        (json.dumps({"domains": {"bike": {"day": {"description": "when"}}}}), "Ready: 1 slot about bike."),
        (json.dumps(JSON_SCHEMA), "Ready: 2 slots about table."),
        ("domains:\n\tbike: x", "The schema is not valid YAML: found character that cannot start any token in line 2."),
        ('{"domains": {', "The schema is not valid JSON: Expecting property name enclosed in double quotes in line 1."),
        ("domains: {bike: {Day: , day: }}", "Two slots have the same name"),
    ],
    ids=["YAML", "JSON", "JSON Schema", "bad YAML", "bad JSON", "the same name"],
)
def test_text_is_checked_while_it_is_typed(visit: Visit, text: str, said: str) -> None:  # noqa: F811
    page = visit()
    dialog = open_dialog(page)
    dialog.get_by_role("tab", name="YAML or JSON").click()
    dialog.get_by_label("Schema", exact=True).fill(text)
    expect(checked(page)).to_contain_text(said)
    assert checked(page).get_attribute("data-state") == ("good" if said.startswith("Ready") else "bad")
    dialog.get_by_role("button", name="Start chatting").click()
    if said.startswith("Ready"):
        expect(dialog).to_be_hidden()
    else:
        expect(dialog.get_by_role("alert")).to_contain_text(said)


def test_form_and_text_say_the_same(visit: Visit) -> None:  # noqa: F811
    page = visit()
    dialog = open_dialog(page)
    form, text = (dialog.get_by_role("tab", name=name) for name in ("Form", "YAML or JSON"))
    text.click()
    dialog.get_by_label("Schema", exact=True).fill(YAML + "different: [[bike-day, bike-helmet]]\n")
    form.click()
    expect(page.get_by_role("group", name="Slot 2").get_by_label("Allowed values")).to_have_value("yes, no")
    write_row(page, 2, description='says "yes": or [no]', values="a, b; c")
    text.focus()
    text.press("ArrowLeft")
    expect(text).to_be_focused()
    expect(text).to_have_attribute("aria-selected", "true")
    expect(dialog.get_by_label("Schema", exact=True)).to_have_value(
        "domains:\n  bike:\n    day:\n      description: when to ride\n    helmet:\n"
        '      description: "says \\"yes\\": or [no]"\n      values: ["a, b", c]\n'
        "different:\n  - [bike-day, bike-helmet]\n"
    )
    expect(checked(page)).to_have_text("Ready: 2 slots about bike.")
    dialog.get_by_label("Schema", exact=True).fill("domains: {")
    form.click()
    expect(dialog.get_by_role("alert")).to_contain_text("not valid YAML")
    expect(text).to_have_attribute("aria-selected", "true")


def test_shared_as_a_file(visit: Visit, tmp_path: Path) -> None:  # noqa: F811
    page = visit()
    dialog = open_dialog(page)
    write_row(page, 1, topic="pizza", slot="size", description="how large it is", values="small, large")
    with page.expect_download() as saved:
        dialog.get_by_role("button", name="Save as a file").click()
    path = tmp_path / saved.value.suggested_filename
    saved.value.save_as(path)
    schema = Schema.load(path)
    assert path.name == "schema.yaml" and schema["pizza-size"].values == ("small", "large")
    other = visit()
    dialog = open_dialog(other)
    other.get_by_label("Open a file").set_input_files(path)
    expect(other.get_by_role("group", name="Slot 1").get_by_label("Slot", exact=True)).to_have_value("size")
    expect(checked(other)).to_have_text("Ready: 1 slot about pizza.")
    broken = tmp_path / "broken.yaml"
    broken.write_text("domains: [")
    other.get_by_label("Open a file").set_input_files(broken)
    expect(dialog.get_by_role("tab", name="YAML or JSON")).to_have_attribute("aria-selected", "true")
    expect(checked(other)).to_contain_text("not valid YAML")


def test_three_assistants_to_try(visit: Visit, service: str) -> None:  # noqa: F811
    files = sorted(FILES.glob("*.yaml"))
    assert [path.name for path in files] == ["dentist.yaml", "pizza.yaml", "ticket.yaml"]
    for path in files:
        assert path.read_text() == (EXAMPLES / path.name).read_text(), "the same file is in examples/schemas"
        schema = Schema.load(path)
        assert all(slot.description for slot in schema.slots) and not set(schema) & set(Schema.multiwoz())
    page = visit()
    page.get_by_role("button", name="A dentist's appointment").click()
    expect(page.get_by_role("heading", name="Your assistant is ready")).to_be_visible()
    expect(page.get_by_label("User", exact=True)).to_have_attribute("placeholder", re.compile("check-up on Tuesday"))
    tell(page, "appointment day tuesday and any appointment time")
    assert stored(page, service)["state"] == {"appointment-day": "tuesday", "appointment-time": "dontcare"}
    assert stored(page, service)["schema"] == Schema.load(FILES / "dentist.yaml").id
    page.get_by_role("button", name="New").click()
    expect(page.get_by_role("heading", name="Your assistant is ready")).to_be_visible()
    page.get_by_role("button", name="Back to the service's own slots").click()
    expect(page.get_by_role("heading", name="Watch a memory form")).to_be_visible()
    tell(page, "hotel area north, appointment day monday")
    assert stored(page, service)["state"] == {"hotel-area": "north"}


def test_another_schema_in_this_conversation(visit: Visit, service: str) -> None:  # noqa: F811
    page = visit()
    page.get_by_role("button", name="A pizza order").click()
    tell(page, "pizza size large and pizza topping ham")
    dialog = open_dialog(page)
    expect(page.get_by_role("group", name="Slot 2").get_by_label("Slot", exact=True)).to_have_value("crust")
    dialog.get_by_role("tab", name="YAML or JSON").click()
    dialog.get_by_label("Schema", exact=True).fill("domains: {pizza: {size: [small, huge], topping: }}")
    dialog.get_by_role("button", name="Use it in this conversation").click()
    expect(page.locator(".note")).to_have_text(
        "A person changed the schema. Not kept: pizza size “large”: "
        '"large" is not among the values of pizza-size, and none of them is near.'
    )
    expect(page.get_by_role("status").first).to_have_text("The schema was changed. Not kept: pizza size")
    assert stored(page, service)["state"] == {"pizza-topping": "ham"}
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(value(page, "pizza-size")).to_contain_text("large")
    expect(page.locator("#model")).to_contain_text("8 slots")
    assert stored(page, service)["state"] == {"pizza-size": "large", "pizza-topping": "ham"}


def test_markup_in_a_schema_is_text(visit: Visit) -> None:  # noqa: F811
    page = visit()
    dialog = open_dialog(page)
    write_row(page, 1, topic="<b>x</b>", slot="<img src=x onerror=alert(1)>", description="<script>alert(1)</script>")
    expect(checked(page)).to_contain_text("Ready: 1 slot about <b>x</b>.")
    dialog.get_by_role("button", name="Start chatting").click()
    expect(page.locator("#slots")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img, main b").count() == 0


def test_with_the_keyboard_alone(visit: Visit, service: str) -> None:  # noqa: F811
    page = visit()
    page.locator("body[data-ready]").wait_for()
    page.locator("#assistant").focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Your own assistant")
    expect(dialog).to_be_visible()
    dialog.get_by_role("tab", name="Form").focus()
    page.keyboard.press("Tab")
    for text in ("bike", "day", "when to ride"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    page.keyboard.type("friday, sunday")
    page.keyboard.press("Enter")
    page.keyboard.type("helmet")
    expect(checked(page)).to_contain_text("Ready: 2 slots about bike.")
    dialog.get_by_role("button", name="Start chatting").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("User", exact=True)).to_be_focused()
    page.keyboard.type("bike day sunday")
    page.keyboard.press("Enter")
    expect(value(page, "bike-day")).to_contain_text("sunday")
    open_dialog(page)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_every_field_has_a_name(visit: Visit) -> None:  # noqa: F811
    page = visit()
    dialog = open_dialog(page)
    dialog.get_by_role("button", name="A support ticket").click()
    expect(page.get_by_role("group", name="Slot 9", exact=True)).to_be_visible()
    unnamed = dialog.locator("input, textarea, button").evaluate_all(
        "all => all.filter(e => !(e.labels?.[0]?.textContent ?? e.getAttribute('aria-label') ?? e.textContent).trim())"
    )
    assert unnamed == []
    assert checked(page).get_attribute("role") == "status" and dialog.get_attribute("aria-labelledby")


def test_on_a_phone(visit: Visit) -> None:  # noqa: F811
    page = visit(viewport=PHONE)
    dialog = open_dialog(page)
    dialog.get_by_role("button", name="A pizza order").click()
    expect(checked(page)).to_have_text("Ready: 8 slots about order, pizza.")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    wide = dialog.locator("*").evaluate_all(
        "all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert wide == 0
    dialog.get_by_role("button", name="Start chatting").click()
    expect(page.get_by_role("heading", name="Your assistant is ready")).to_be_visible()  # then the fields were emptied
    tell(page, "pizza size large")
    expect(value(page, "pizza-size")).to_contain_text("large")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_model_with_a_fixed_schema_does_not_offer_it(visit: Visit, tmp_path: Path) -> None:  # noqa: F811
    with served(Settings(database=str(tmp_path / "fixed.sqlite")), Tracker(RulePredictor())) as url:
        page = visit(url=url)
        page.locator("body[data-ready]").wait_for()
        expect(page.get_by_role("button", name="Your own assistant")).to_have_count(0)
        expect(page.locator("#assistants")).to_be_hidden()
