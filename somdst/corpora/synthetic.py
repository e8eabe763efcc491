"""A seeded synthetic corpus: somebody plans an outing, with a cafe, a hotel and a taxi.

It is for tests, for the tutorial and for machines without data. All four operations are in it: slots are filled in the
opening sentence or in answer to a question, names are accepted from what the system offered, values are corrected,
taken back and left open, and a taxi goes between places that were chosen earlier. Values hold hyphens and colons.
What is said always decides the state, so that a model can learn it almost perfectly; it says nothing about how well
a model does with people.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from somdst.corpora.corpus import Corpus, Split
from somdst.errors import CorpusError
from somdst.memory.dialogue import Dialogue, Turn
from somdst.memory.schema import Schema, Slot
from somdst.memory.state import DONTCARE, State, Value

AREAS = ("north", "south", "east", "west", "centre", "old town")
FOODS = ("italian", "thai", "vegan", "tex-mex", "indian", "greek", "middle-eastern", "french")
PRICES = ("cheap", "mid-range", "expensive")
PEOPLE = ("2", "3", "4", "5", "6", "7", "8")
NIGHTS = ("2", "3", "4", "5", "6", "7")
TIMES = tuple(f"{hour:02}:{minute:02}" for hour in range(8, 21) for minute in (0, 15, 30, 45))

SYNTHETIC_SCHEMA: Final = Schema(
    [
        Slot.of("cafe", "area", description="part of town of the cafe", values=AREAS),
        Slot.of("cafe", "food", description="kind of food"),
        Slot.of("cafe", "name", description="name of the cafe"),
        Slot.of("cafe", "people", description="number of people at the table"),
        Slot.of("cafe", "time", description="time of the table"),
        Slot.of("hotel", "area", description="part of town of the hotel", values=AREAS),
        Slot.of("hotel", "name", description="name of the hotel"),
        Slot.of("hotel", "nights", description="number of nights"),
        Slot.of("hotel", "parking", description="whether the hotel has parking", values=("yes", "no")),
        Slot.of("hotel", "price", description="price of the hotel", values=PRICES),
        Slot.of("taxi", "departure", description="where the taxi leaves from"),
        Slot.of("taxi", "destination", description="where the taxi goes"),
        Slot.of("taxi", "leave at", description="when the taxi leaves"),
    ]
)

NAMES: Final = {
    "cafe": (
        "Blue Door",
        "Copper Kettle",
        "Jean-Luc",
        "Maple Room",
        "Nine Cups",
        "Paper Moon",
        "Quiet Corner",
        "Red Fig",
    ),
    "hotel": ("Anchor Lodge", "Bell Tower", "Garden Court", "Harbour View", "Saint-Martin House", "Willow Inn"),
    "taxi": ("Central Station", "City Airport", "Grand Theatre", "Market Square", "North-Gate Museum", "Town Hall"),
}
CHOICES: Final = {
    "cafe-area": AREAS,
    "cafe-food": FOODS,
    "cafe-people": PEOPLE,
    "cafe-time": TIMES,
    "hotel-area": AREAS,
    "hotel-nights": NIGHTS,
    "hotel-parking": ("yes", "no"),
    "hotel-price": PRICES,
    "taxi-leave at": TIMES,
}

# What is said of a slot: in an opening sentence, as a question of the system, as the answer, and its plain name.
FRAGMENTS: Final = {
    "cafe-area": ("in the {}", "somewhere in the {}", "located in the {}"),
    "cafe-food": ("with {} food", "that serves {} food", "that does {} dishes"),
    "hotel-area": ("in the {}", "somewhere in the {}", "located in the {}"),
    "hotel-price": ("that is {}", "in the {} price range", "with {} rooms"),
}
QUESTIONS: Final = {
    "cafe-area": ("Which part of town should the cafe be in?", "Do you have an area in mind for the cafe?"),
    "cafe-food": ("What kind of food would you like at the cafe?", "Which food should the cafe serve?"),
    "cafe-people": ("For how many people is the table at the cafe?", "How many of you will come to the cafe?"),
    "cafe-time": ("At what time should I book the cafe?", "When would you like the table at the cafe?"),
    "hotel-area": ("Which part of town should the hotel be in?", "Where should the hotel be?"),
    "hotel-nights": ("How many nights will you stay at the hotel?", "For how many nights is the hotel?"),
    "hotel-parking": ("Do you need parking at the hotel?", "Should the hotel have a car park?"),
    "hotel-price": ("What price range should the hotel have?", "How much may the hotel cost?"),
    "taxi-departure": ("Where should the taxi pick you up?", "Where does the taxi leave from?"),
    "taxi-destination": ("Where should the taxi take you?", "Where would you like to go by taxi?"),
    "taxi-leave at": ("When should the taxi leave?", "At what time do you want the taxi?"),
}
ANSWERS: Final = {
    "cafe-area": ("The {}, please.", "In the {}.", "Somewhere in the {} would be great."),
    "cafe-food": ("{} food, please.", "I would love {}.", "We are in the mood for {} food."),
    "cafe-people": ("There are {} of us.", "For {}.", "A table for {}, please."),
    "cafe-time": ("At {}.", "{} would be perfect.", "Let us say {}."),
    "hotel-area": ("The {}, please.", "In the {}.", "I'd rather stay in the {}."),
    "hotel-nights": ("{} nights.", "We will stay for {} nights.", "For {}, please."),
    "hotel-price": ("Something {}, please.", "{}.", "I'd like a {} one."),
    "taxi-departure": ("From {}.", "Pick me up at {}, please.", "I'll be waiting at {}."),
    "taxi-destination": ("To {}.", "Take me to {}, please.", "I'm going to {}."),
    "taxi-leave at": ("At {}.", "I want to leave at {}.", "{}, please."),
}
YES = ("Yes, I am coming by car.", "Yes, parking is a must.", "Yes please, I need a space for my car.")
NO = ("No, I don't have a car.", "No, that is not needed.", "No, we are coming by train.")
INDIFFERENT = ("I don't mind.", "Any is fine.", "That doesn't matter to me.", "I have no preference.", "Surprise me!")
LABELS: Final = {
    "cafe-area": "area of the cafe",
    "cafe-food": "food at the cafe",
    "cafe-people": "number of people for the cafe",
    "cafe-time": "time for the cafe",
    "hotel-area": "area of the hotel",
    "hotel-nights": "number of nights at the hotel",
    "hotel-price": "price of the hotel",
    "taxi-departure": "pick-up place of the taxi",
    "taxi-destination": "destination of the taxi",
    "taxi-leave at": "time of the taxi",
}
CORRECTIONS = (
    "Actually, please change the {label} to {value}.",
    "Sorry, I was wrong about the {label}. It should be {value}.",
    "Wait, could you make that {value} for the {label}?",
)
DELETIONS = (
    "On second thought, forget about the {label}.",
    "Please remove the {label} again, I will decide that later.",
    "Let us leave the {label} out for now.",
)
SHRUGS = (
    "The {label} does not matter after all.",
    "You know what, I am flexible about the {label}.",
    "Any choice is fine for the {label}, I don't care.",
)
OPENINGS: Final = {
    "cafe": ("I'm looking for a cafe{}.", "Can you find me a cafe{}?", "We want to have lunch at a cafe{}."),
    "hotel": ("I need a hotel{}.", "Can you help me find a hotel{}?", "I'd like to stay at a hotel{}."),
}
OFFERS: Final = {
    "cafe": ("How about the cafe {}?", "I can recommend {}, a nice cafe.", "The cafe {} fits well. Shall I book it?"),
    "hotel": (
        "How about the hotel {}?",
        "I can recommend {}, a good hotel.",
        "The hotel {} fits well. Shall I book it?",
    ),
}
ACCEPTS = (
    "Yes, that sounds good.",
    "Perfect, I'll take it.",
    "Great, please book that one.",
    "Lovely, let's go there.",
)
DECLINES = ("No, do you have something else?", "Hmm, not that one.", "What else is there?")
REFERENCES = (
    "I also need a taxi from the {} to the {}.",
    "Please send a taxi to the {} that brings me to the {}.",
    "Can you book a taxi? Pick me up at the {} and take me to the {}.",
)
RIDES = ("I need a taxi to {}.", "Book me a taxi that goes to {}, please.", "Can I get a taxi to {}?")
NOTED = ("All right.", "Noted.", "Sure, I have changed that.", "No problem.")
MORE = ("Is there anything else?", "What else can I do for you?", "Anything else I should know?")
THANKS = ("No, that is all. Thank you!", "That's everything, thanks.", "Thanks, bye!")


def synthetic_named(name: str, *, split: Split | None = None) -> Corpus:
    """The corpus called "synthetic", or "synthetic:500" for one of 500 dialogues; dev and test have a fifth of that.

    >>> synthetic_named("synthetic:500", split="dev").name, len(synthetic_named("synthetic:500", split="dev").dialogues)
    ('synthetic:500 dev', 100)
    """
    number = name.partition(":")[2] or "200"
    if not (number.isascii() and number.isdigit() and 0 < int(number) <= 1_000_000):
        raise CorpusError(f'"{name}" should be "synthetic", or "synthetic:500" for 500 dialogues, up to a million.')
    size = int(number) if split in (None, "train") else max(1, int(number) // 5)
    corpus = synthetic_corpus(dialogues=size, seed={None: 0, "train": 0, "dev": 1, "test": 2}[split])
    return replace(corpus, name=name if split is None else f"{name} {split}")


def synthetic_corpus(*, dialogues: int = 200, seed: int = 0) -> Corpus:
    """A corpus with its schema."""
    made = synthetic_dialogues(dialogues=dialogues, seed=seed)
    return Corpus(f"synthetic:{dialogues}", "synthetic", made, schema=SYNTHETIC_SCHEMA)


def synthetic_dialogues(*, dialogues: int = 200, seed: int = 0) -> tuple[Dialogue, ...]:
    """The first `dialogues` of the endless corpus with this seed; a longer one starts with the shorter.

    >>> synthetic_dialogues(dialogues=1)[0].turns[0].user
    'I need a hotel in the expensive price range in the centre.'
    """
    return tuple(_dialogue(f"synthetic-{seed}-{number:05}") for number in range(dialogues))


def _dialogue(name: str) -> Dialogue:
    rng = Random(name)  # seeding with text is the same on every platform and version of Python
    domains = rng.choice(
        (("cafe",), ("hotel",), ("taxi",), ("cafe", "hotel"), ("hotel", "cafe"), ("hotel", "taxi"))
        + (("cafe", "hotel", "taxi"), ("hotel", "cafe", "taxi")) * 2
    )
    talk = _Talk(rng)
    for domain in domains:
        _ride(talk) if domain == "taxi" else _place(talk, domain)
    talk.ask(MORE)
    talk.say(rng.choice(THANKS), domains[-1], {})
    return Dialogue(name, tuple(talk.turns), goal=domains)


class _Talk:
    """A dialogue in the making: what has been said, the state, and what the system says next."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.state = State()
        self.turns: list[Turn] = []
        self.system = ""

    def ask(self, questions: tuple[str, ...], name: str = "") -> None:
        question = self.rng.choice(questions).format(name)
        self.system = f"{self.system} {question}" if self.system else question if self.turns else ""

    def say(self, user: str, domain: str, values: dict[str, Value | None]) -> None:
        self.state = self.state.with_values(values)
        user = user[0].upper() + user[1:]
        self.turns.append(Turn(system=self.system, user=user, state=self.state, domain=domain))
        self.system = ""

    def answer(self, slot: str, domain: str, *, indifferent: float = 0.0) -> None:
        """The system asks for a slot and the user answers it."""
        self.ask(QUESTIONS[slot])
        if self.rng.random() < indifferent:
            self.say(self.rng.choice(INDIFFERENT), domain, {slot: DONTCARE})
        elif slot == "hotel-parking":
            value = self.rng.choice(("yes", "no"))
            self.say(self.rng.choice(YES if value == "yes" else NO), domain, {slot: value})
        else:
            value = self.another(slot)
            self.say(self.rng.choice(ANSWERS[slot]).format(value), domain, {slot: value.lower()})

    def another(self, slot: str) -> str:
        """A value, as it is written in a text, that the slot does not have now."""
        taken = {str(value) for value in self.state.values()} if slot not in CHOICES else {self.state.get(slot)}
        return self.rng.choice([v for v in CHOICES.get(slot, NAMES["taxi"]) if v.lower() not in taken])

    def reconsider(self, domain: str) -> None:
        """Now and then the user corrects a value, takes it back or leaves it open after all."""
        slots = [slot for slot in self.state if slot in LABELS and slot.startswith(domain + "-")]
        chance = self.rng.random()
        if not slots or chance > 0.6:
            return
        self.ask(MORE)
        slot = self.rng.choice(slots)
        if chance < 0.3:
            value = self.another(slot)
            text = self.rng.choice(CORRECTIONS).format(label=LABELS[slot], value=value)
            self.say(text, domain, {slot: value.lower()})
        elif chance < 0.5 or self.state[slot] is DONTCARE:
            self.say(self.rng.choice(DELETIONS).format(label=LABELS[slot]), domain, {slot: None})
        else:
            self.say(self.rng.choice(SHRUGS).format(label=LABELS[slot]), domain, {slot: DONTCARE})
        self.system = self.rng.choice(NOTED)


def _place(talk: _Talk, domain: str) -> None:
    """Find a cafe or a hotel, choose one of those offered, and book it."""
    rng = talk.rng
    wanted = [slot for slot in FRAGMENTS if slot.startswith(domain + "-")]
    rng.shuffle(wanted)
    told = wanted[: rng.randrange(len(wanted) + 1)]
    values = {slot: talk.another(slot) for slot in told}
    fragments = "".join(" " + rng.choice(FRAGMENTS[slot]).format(value) for slot, value in values.items())
    if talk.turns:
        talk.ask(MORE)
    talk.say(rng.choice(OPENINGS[domain]).format(fragments), domain, {slot: values[slot].lower() for slot in told})
    for slot in wanted[len(told) :]:
        talk.answer(slot, domain, indifferent=0.25)
    talk.reconsider(domain)
    _choose(talk, domain)
    details = [slot for slot in QUESTIONS if slot.startswith(domain + "-") and slot not in FRAGMENTS]
    rng.shuffle(details)
    for slot in details[: rng.randint(1, len(details))]:
        talk.answer(slot, domain)
    talk.reconsider(domain)


def _choose(talk: _Talk, domain: str) -> None:
    """The system offers places until one is taken: only the system says its name."""
    names = talk.rng.sample(NAMES[domain], talk.rng.choice((1, 1, 2)))
    for name in names[:-1]:
        talk.ask(OFFERS[domain], name)
        talk.say(talk.rng.choice(DECLINES), domain, {})
    talk.ask(OFFERS[domain], names[-1])
    talk.say(talk.rng.choice(ACCEPTS), domain, {f"{domain}-name": names[-1].lower()})


def _ride(talk: _Talk) -> None:
    """A taxi: between two places that were chosen before, or with places that the user names."""
    rng = talk.rng
    if talk.turns:
        talk.ask(MORE)
    places = [domain for domain in ("cafe", "hotel") if f"{domain}-name" in talk.state]
    if len(places) == 2:
        rng.shuffle(places)
        start, end = (talk.state[f"{place}-name"] for place in places)
        talk.say(rng.choice(REFERENCES).format(*places), "taxi", {"taxi-departure": start, "taxi-destination": end})
    elif places:
        goal = talk.state[f"{places[0]}-name"]
        talk.say(rng.choice(RIDES).format(f"the {places[0]}"), "taxi", {"taxi-destination": goal})
        talk.answer("taxi-departure", "taxi")
    else:
        place = talk.another("taxi-destination")
        talk.say(rng.choice(RIDES).format(place), "taxi", {"taxi-destination": place.lower()})
        talk.answer("taxi-departure", "taxi")
    talk.answer("taxi-leave at", "taxi")
    talk.reconsider("taxi")
