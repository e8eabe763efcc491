"""Tiny corpora in the published layouts, written by the tests that read them."""

import copy
import json
import zipfile
from pathlib import Path
from typing import Any

_SEMI = {
    "taxi": ("leaveAt", "destination", "departure", "arriveBy"),
    "police": (),
    "restaurant": ("food", "pricerange", "name", "area"),
    "hospital": ("department",),
    "hotel": ("name", "area", "parking", "pricerange", "stars", "internet", "type"),
    "attraction": ("type", "name", "area"),
    "train": ("leaveAt", "destination", "day", "arriveBy", "departure"),
}
_BOOK = {"restaurant": ("time", "day", "people"), "hotel": ("stay", "day", "people"), "train": ("people",)}


def metadata(**filled: str) -> dict[str, Any]:
    """What annotators filled in: `metadata(hotel_area="north", hotel_book_day="friday")`."""
    empty: dict[str, Any] = {
        domain: {
            "book": {"booked": [], **dict.fromkeys(_BOOK.get(domain, ()), "")},
            "semi": dict.fromkeys(names, ""),
        }
        for domain, names in _SEMI.items()
    }
    for key, value in filled.items():
        domain, _, name = key.partition("_")
        part = "book" if name.startswith("book_") else "semi"
        empty[domain][part][name.removeprefix("book_")] = value
    return empty


def dialogue(*turns: tuple[str, str, dict[str, Any]], goal: tuple[str, ...] = ("hotel",)) -> dict[str, Any]:
    """A dialogue of MultiWOZ 2.1 from (user, system, metadata of the system's answer)."""
    log: list[dict[str, Any]] = []
    for user, system, after in turns:
        log += [{"text": user, "metadata": {}}, {"text": system, "metadata": copy.deepcopy(after)}]
    return {"goal": {"message": ["..."], **{domain: {"info": {"x": "y"}} for domain in goal}}, "log": log}


HOTEL = dialogue(
    ("A B&B in the Town Centre", "Which day?", metadata(hotel_area="town centre", hotel_name="not mentioned")),
    ("Friday", "Booked.", metadata(hotel_area="centre", hotel_book_day="friday", hotel_stars="dont care")),
)
TRAIN = dialogue(
    ("A train to Ely", "When?", metadata(train_destination="ely", train_leaveAt="not mentioned")),
    ("Any time", "OK.", metadata(train_destination="ely", train_leaveAt="do n't care")),
    goal=("train",),
)


def write_json(path: Path, data: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def write_multiwoz(folder: Path, dialogues: dict[str, Any], *, ending: str = ".txt", **lists: str) -> Path:
    """A folder as MultiWOZ is published: `lists` are the lines of valListFile and testListFile."""
    write_json(folder / "data.json", dialogues)
    for name, lines in lists.items():
        (folder / f"{name}{ending}").write_text(lines, encoding="utf-8")
    return folder


def zipped(folder: Path, path: Path) -> Path:
    """The folder as a zip that holds it, with the shadow files that a Mac adds."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, f"{folder.name}/{file.relative_to(folder).as_posix()}")
                archive.writestr(f"__MACOSX/{folder.name}/._{file.relative_to(folder).as_posix()}", b"\x00\x05\x16\x07")
    return path


def _service(name: str, slots: dict[str, list[str]], asked: list[str]) -> dict[str, Any]:
    return {
        "service_name": name,
        "description": f"about {name}",
        "slots": [
            {"name": slot, "description": f"the {slot}", "is_categorical": bool(values), "possible_values": values}
            for slot, values in slots.items()
        ],
        "intents": [{"name": "Find", "required_slots": asked[:1], "optional_slots": dict.fromkeys(asked[1:], "x")}],
    }


def frame(service: str, intent: str = "Find", **values: list[str]) -> dict[str, Any]:
    """The frame of a user turn; `hotel__bookday` writes "hotel-bookday"."""
    told = {name.replace("__", "-"): spellings for name, spellings in values.items()}
    state = {"active_intent": intent, "requested_slots": [], "slot_values": told}
    return {"service": service, "slots": [], "actions": [], "state": state}


def user(utterance: str, *frames: dict[str, Any]) -> dict[str, Any]:
    return {"speaker": "USER", "utterance": utterance, "frames": list(frames)}


def system(utterance: str) -> dict[str, Any]:
    return {"speaker": "SYSTEM", "utterance": utterance, "frames": []}


SGD_SCHEMA = [
    _service(
        "Restaurants_2",
        {"location": [], "seats": ["1", "2"], "outdoors": ["True", "False"], "phone": []},
        ["location", "seats", "outdoors"],
    ),
    _service("Media_1", {"title": []}, ["title"]),
]
SGD_DIALOGUE = {
    "dialogue_id": "1_00000",
    "services": ["Restaurants_2", "Media_1"],
    "turns": [
        user("A table in San Jose", frame("Restaurants_2", location=["San Jose", "SJ"])),
        system("For how many?"),
        user("Two, anywhere", frame("Restaurants_2", location=["San Jose"], seats=["2"], outdoors=["dontcare"])),
        system("Done."),
        user("Play Up", frame("Media_1", title=["Up"]), frame("Restaurants_2", "NONE", location=["San Jose"])),
        system("Playing."),
        user("Thanks", frame("Media_1", "NONE", title=["Up"])),
        system("Bye."),
    ],
}
MULTIWOZ22_SCHEMA = [
    _service(
        "hotel",
        {"hotel-area": ["centre", "north"], "hotel-bookday": ["friday"], "hotel-type": ["guesthouse"]},
        ["hotel-area", "hotel-bookday", "hotel-type"],
    ),
    _service("police", {"police-name": []}, ["police-name"]),
]
MULTIWOZ22_DIALOGUE = {
    "dialogue_id": "PMUL4398.json",
    "services": ["hotel"],
    "turns": [
        user("Help, police", frame("hotel", "NONE"), frame("police", "find_police")),
        system("Yes?"),
        user("A guesthouse", frame("hotel", hotel__type=["guesthouse"]), frame("police", "NONE")),
        system("When?"),
        user("Friday", frame("hotel", hotel__type=["guesthouse"], hotel__bookday=["friday", "fri"])),
    ],
}


def woz_turn(system: str, user: str, *informed: tuple[str, str]) -> dict[str, Any]:
    acts = [{"act": "inform", "slots": [list(pair)]} for pair in informed]
    return {
        "turn_idx": 0,
        "system_transcript": system,
        "transcript": user,
        "belief_state": [{"act": "request", "slots": [["slot", "phone"]]}, *acts],
        "turn_label": [],
        "system_acts": [],
        "asr": [],
    }


WOZ_DIALOGUE = {
    "dialogue_idx": 7,
    "dialogue": [
        woz_turn("", "Cheap food, and the phone number?", ("price range", "cheap")),
        woz_turn(
            "Where?", "Anywhere in the center", ("price range", "cheap"), ("area", "center"), ("food", "dontcare")
        ),
    ],
}
