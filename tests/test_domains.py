"""The written domains and the conversations made of them: every label follows from what was said."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from somdst.corpora import moves, open_corpus
from somdst.corpora.domains import HELD_OUT, load_domains
from somdst.corpora.made import made_dialogue
from somdst.corpora.phrases import FOLDER, phrase, sections
from somdst.corpora.rewriting import rewritten, verbatim
from somdst.corpora.talk import Piece, Talk
from somdst.corpora.value_types import new_value, ordered_pair, type_of
from somdst.errors import CorpusError
from somdst.memory.dialogue import Dialogue
from somdst.memory.schema import Slot
from somdst.memory.state import DONTCARE, State
from somdst.model.text import normalise

TRAIN = load_domains("train")
DIALOGUES = [made_dialogue(f"test-{i}", TRAIN) for i in range(400)]


def check_labels(dialogue: Dialogue) -> None:
    """Closed values are in their list, and open ones in the text so far."""
    assert dialogue.schema is not None
    said = ""
    for turn in dialogue.turns:
        said += f" \n {normalise(turn.system, 'lowercase')} \n {normalise(turn.user, 'lowercase')}"
        assert turn.state is not None and turn.user
        for key, value in turn.state.items():
            allowed = dialogue.schema[key].values
            if value is not DONTCARE:
                assert value in (said if allowed is None else allowed), f"{dialogue.id}: {key} = {value}"


def test_the_files_are_valid() -> None:
    names: Counter[str] = Counter()
    for file in FOLDER.glob("*.json"):
        for data in json.loads(file.read_text()):
            names[data["domain"]] += 1
            assert data["dialogues"] and 3 <= len(data["slots"]) <= 14
            assert bool(data.get("open")) == bool(data.get("requests"))
            for name, slot in data["slots"].items():
                Slot.of(data["domain"], name)
                assert all(text.count("{v}") == 1 for text in slot.get("say", []) + slot.get("answer", []))
                assert all(value == value.lower().strip() for value in slot.get("values", ()))
    assert set(names.values()) == {1} and len(names) >= 300


def test_train_and_dev_share_no_domain() -> None:
    train, dev = ({domain.name for domain in load_domains(split)} for split in ("train", "dev"))
    assert dev == HELD_OUT and len(dev) == 30 and not train & dev
    assert train | dev == {domain.name for domain in load_domains(None)}


def test_no_domain_is_a_subject_of_the_test_set() -> None:
    """The card of the shipped model says that no training dialogue is about the schemas of these conversations."""
    people = open_corpus(Path(__file__).parent / "fixtures/people.jsonl")
    tested = {domain for dialogue in people.dialogues if dialogue.schema for domain in dialogue.schema.domains}
    assert len(tested) >= 20 and not tested & {domain.name for domain in load_domains()}


@pytest.mark.parametrize("domain", load_domains(), ids=lambda domain: str(domain.name))
def test_written_dialogues_are_consistent(domain: object) -> None:
    from somdst.corpora.domains import Domain
    from somdst.corpora.made import written_dialogues

    assert isinstance(domain, Domain)
    for dialogue in written_dialogues([domain]):
        check_labels(dialogue)


def test_labels_follow_from_the_text() -> None:
    for dialogue in DIALOGUES:
        check_labels(dialogue)
        assert 3 <= len(dialogue.turns) <= 12
        assert all(turn.system for turn in dialogue.turns[1:])
        assert not any(re.search(r"[{}|]|\s\s", turn.system + turn.user) for turn in dialogue.turns)


def test_the_same_name_is_the_same_dialogue() -> None:
    again = [made_dialogue(f"test-{i}", TRAIN) for i in range(50)]
    assert again == DIALOGUES[:50] and [d.schema for d in again] == [d.schema for d in DIALOGUES[:50]]
    assert len({dialogue.turns for dialogue in DIALOGUES}) > 0.95 * len(DIALOGUES)


def test_schemas_vary() -> None:
    schemas = [dialogue.schema for dialogue in DIALOGUES if dialogue.schema]
    bare = sum(not any(slot.description for slot in schema.slots) for schema in schemas)
    two = sum(len(schema.domains) == 2 for schema in schemas)
    assert 0.05 < bare / len(schemas) < 0.16 and 0.02 < two / len(schemas) < 0.2
    lists = {field.key.replace(" ", "_") for domain in TRAIN for field in domain.fields if field.kind == "list"}
    slots = [slot for schema in schemas for slot in schema.slots if slot.replace(" ", "_") in lists]
    assert 0.05 < sum("_" in slot for slot in slots) / len(slots) < 0.25
    put_together = [made_dialogue(f"lists-{i}", TRAIN, vary=False).schema for i in range(100)]
    slots = [slot for schema in put_together if schema for slot in schema.slots if slot.replace(" ", "_") in lists]
    assert 0.1 < sum(slot.values is None for slot in slots) / len(slots) < 0.25, "one list in six is left out"


CHANGES_NOTHING = (
    "skip question question-values chat chat-value rule-out refuse neither repeat repeat-value yes no-heard "
    "info-answer proceed-answer nothing-else bye"
)
SETS_A_VALUE = (
    "accept accept-again first former second latter last middle earlier later no-fix refuse-other correct-bare "
    "correct-old correct-label not-but count people answer answer-wish same"
)
TAKES_BACK = "forget forget-value rule-out-held"
ANY_WILL_DO = "indifferent indifferent-label either"
BY_USERS = " ".join((CHANGES_NOTHING, SETS_A_VALUE, TAKES_BACK, ANY_WILL_DO, "self-correct correct-say join")).split()


@pytest.fixture(scope="module")
def turns() -> Iterator[list[tuple[list[str], dict[str, object], dict[str, object]]]]:
    """Of many dialogues: the sections that a turn's sentences came from, the memory before it, and what it changed."""
    made: list[tuple[list[str], dict[str, object], dict[str, object]]] = []
    used: list[str] = []

    def spying_phrase(self: Talk, section: str, /, *, need: str = "", **words: str) -> str:
        used.append(section)
        return phrase(section, self.rng, need=need, **words)

    def spying_say(self: Talk, system: str, piece: Piece, *, reply: str = "") -> None:
        made.append(([name for name in used if name in BY_USERS], dict(self.state), dict(piece.changes)))
        used.clear()
        say(self, system, piece, reply=reply)

    say = Talk.say
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Talk, "phrase", spying_phrase)
        patch.setattr(Talk, "say", spying_say)
        for i in range(2000):
            made_dialogue(f"acts-{i}", TRAIN, vary=False)
    yield made


def test_every_act_occurs_and_does_what_it_should(
    turns: list[tuple[list[str], dict[str, object], dict[str, object]]],
) -> None:
    alone = defaultdict(list)
    for used, before, changes in turns:
        if len(used) == 1:
            alone[used[0]].append((before, changes))
    for section in set(BY_USERS) - {"join"}:
        assert len(alone[section]) >= 3, f"{section} is too rare: {len(alone[section])}"
    for section in CHANGES_NOTHING.split():
        assert all(not changes for _, changes in alone[section]), section
    for section in SETS_A_VALUE.split():
        for before, changes in alone[section]:
            values = list(changes.items())
            assert values and all(isinstance(value, str) and before.get(key) != value for key, value in values), section
    for section in TAKES_BACK.split():
        for before, changes in alone[section]:
            ((key, value),) = changes.items()
            assert value is None and isinstance(before[key], str), section
    for section in ANY_WILL_DO.split():
        assert all(list(changes.values()) == [DONTCARE] for _, changes in alone[section]), section


def test_references_take_the_other_slots_value(
    turns: list[tuple[list[str], dict[str, object], dict[str, object]]],
) -> None:
    same = [(before, changes) for used, before, changes in turns if used == ["same"]]
    for before, changes in same:
        assert set(changes.values()) <= set(before.values())


def test_phrases_have_only_known_placeholders() -> None:
    known = {"v", "old", "label", "name", "Name", "say", "ask", "a", "b", "c", "n", "m", "code", "sum", "noun"}
    for section, lines in sections().items():
        assert lines, section
        for line in lines:
            assert set(re.findall(r"\{(\w+)\}", line)) <= known, line
            assert line.count("(") == line.count(")"), line


def test_phrase_chooses_alternatives_and_fills_in() -> None:
    said = {phrase("rule-out", Random(i), v="friday") for i in range(200)}
    assert len(said) > 30 and all("friday" in text and "(" not in text for text in said)
    assert all("monday" in phrase("no-fix", Random(i), need="old", v="friday", old="monday") for i in range(50))


def test_a_request_fills_all_its_slots() -> None:
    pizza = next(domain for domain in TRAIN if domain.name == "pizza place")
    piece = None
    for seed in range(20):
        piece = moves.request(Talk(Random(seed), [pizza], frozenset()))
        assert piece is not None and len(piece.changes) >= 2 and not re.search(r"[\[\]{}|]", piece.text)


def test_a_bare_correction_is_never_made_beside_something_else() -> None:
    """ "No, saturday" after a question for something else would be an answer to it."""
    pizza = next(domain for domain in TRAIN if domain.name == "pizza place")
    for seed in range(100):
        talk = Talk(Random(seed), [pizza], frozenset())
        talk.say("", Piece("2 pizzas", {"pizza place-how many": "2"}))
        piece = moves.correct_clearly(talk)
        assert piece is not None and list(piece.changes) == ["pizza place-how many"]
        assert re.search(r"\b2\b|two|how many|number|pizzas|pies|ordering|we need", piece.text), piece.text


def test_written_values_are_replaced_everywhere() -> None:
    replaced = 0
    for domain in TRAIN:
        originals = [verbatim(domain, turns) for turns in domain.dialogues]
        for seed in range(4):
            turns = rewritten(domain, Random(f"{domain.name} {seed}"))
            replaced += turns not in originals
            state = State()
            said = ""
            for turn in turns:
                said += f" \n {turn.system.lower()} \n {turn.user.lower()}"
                assert turn.state is not None
                for key, value in turn.state.items():
                    field = domain.field(key.partition("-")[2])
                    assert value is DONTCARE or field.kind != "open" or value in " ".join(said.split(" "))
                state = turn.state
            assert state is not None
    assert replaced > len(TRAIN)


def minutes(time: str) -> int:
    """Minutes of the day of "17:15", "5:15 pm" or "5pm"."""
    match = re.fullmatch(r"(\d+)(?::(\d\d))? ?([ap]m)?", time)
    assert match
    hour = int(match[1]) if not match[3] else int(match[1]) % 12 + 12 * (match[3] == "pm")
    return hour * 60 + int(match[2] or 0)


def test_value_types() -> None:
    assert type_of(["7 pm", "half past six", "18:45"]) == "time"
    assert type_of(["anna keller", "bob", "miguel santos", "lee wong"]) == "person"
    assert type_of(["a tap", "the sink"]) is None
    assert ordered_pair("person", ["anna"], Random(0)) is None
    assert ordered_pair("date", ["yesterday", "last friday"], Random(0)) is None
    for seed in range(50):
        early, late = ordered_pair("time", [], Random(seed)) or ("", "")
        assert type_of([early, late]) == "time" and minutes(early) < minutes(late)
    for type_, values in {"count": ["2", "three", "9"], "time": ["7 pm"], "street": ["1 mill road"]}.items():
        assert type_of([new_value(type_, values, Random(i)) or "" for i in range(50)]) == type_  # type: ignore[arg-type]


def test_by_name() -> None:
    train, dev = open_corpus("domains:7", split="train"), open_corpus("domains", split="dev")
    written = sum(len(domain.dialogues) for domain in TRAIN)
    assert len(train.dialogues) == written + 7 and train.name == "domains:7 train"
    assert len(dev.dialogues) == sum(len(domain.dialogues) for domain in load_domains("dev")) + 300
    assert {turn.domain for dialogue in dev.dialogues for turn in dialogue.turns} == set(HELD_OUT)
    for wrong in ("domains:x", "domains:-1"):
        with pytest.raises(CorpusError, match="domains:500"):
            open_corpus(wrong)
    with pytest.raises(CorpusError, match="no test split"):
        open_corpus("domains", split="test")
