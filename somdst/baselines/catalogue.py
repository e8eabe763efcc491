"""Which systems there are, and what is known about each before it is run. Needs no torch.

`somdst systems` prints it. Complexities are those of the paper's table 11 where it has the system; the classifiers
that it leaves out score all values of all slots at every turn, as SUMBT does.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from somdst.errors import InputError, no_such
from somdst.evaluate.paper_results import COMPLEXITY, JOINT_GOAL_ACCURACY
from somdst.evaluate.tables import Table
from somdst.model.config import SOM_DST

Feeding = Literal["history", "turns", "turn with state", "slots with history"]
"""How the encoder is fed. All turns at once; each turn once, with a recurrence over the turns; this turn with the
previous state; all turns with one [SLOT] per slot."""
Writes = Literal["every", "every-non-null", "ours"]
"""The values that are produced at a turn: of all slots, of all filled slots, of the slots that change."""


@dataclass(frozen=True, slots=True)
class Listed:
    name: str
    title: str
    """As in the paper's tables."""
    home: str
    feeding: Feeding
    heads: str
    ontology: bool
    """Whether it can only say values that were seen in training, in every slot."""
    writes: Writes

    @property
    def complexity(self) -> tuple[str, str]:
        """Best and worst case."""
        return COMPLEXITY.get(self.title, ("JM", "JM"))

    @property
    def published(self) -> tuple[float | None, float | None]:
        """Joint goal accuracy on MultiWOZ 2.0 and 2.1, on test."""
        return JOINT_GOAL_ACCURACY.get(self.title) or JOINT_GOAL_ACCURACY[f"{self.title} (BERT-base)"]

    def load(self) -> Any:
        """The system's class."""
        module, name = self.home.split(":")
        return getattr(import_module(f"somdst.baselines.{module}"), name)


_ENTRIES = (
    Listed(SOM_DST, "SOM-DST", "", "turn with state", "operations; copy generator for changed slots", False, "ours"),
    Listed("trade", "TRADE", "trade:Trade", "history", "gate; copy generator for all slots", False, "every"),
    Listed("comer", "COMER", "comer:Comer", "turn with state", "three-level decoder", False, "every-non-null"),
    Listed("nadst", "NADST", "nadst:Nadst", "history", "gate; fertility; parallel tokens", False, "every-non-null"),
    Listed("ml-bst", "ML-BST", "ml_bst:MlBst", "turn with state", "copy generator for all slots", False, "every"),
    Listed("dst-reader", "DST Reader", "dst_reader:DstReader", "history", "carry-over; type; span", False, "ours"),
    Listed(
        *("ds-dst", "DS-DST", "ds_dst:DsDst", "slots with history"),
        *("gate; span, or distance to value vectors", False, "every-non-null"),
    ),
    Listed(
        *("dst-picklist", "DST-picklist", "ds_dst:DstPicklist", "slots with history"),
        *("gate; distance to value vectors", True, "every-non-null"),
    ),
    Listed("sumbt", "SUMBT", "sumbt:Sumbt", "turns", "distance to value vectors", True, "every"),
    Listed("hyst", "HyST", "hyst:Hyst", "turns", "softmax over values, or n-grams of the turn", False, "every"),
    Listed("fjst", "FJST", "fjst:Fjst", "history", "softmax over values", True, "every"),
    Listed("hjst", "HJST", "hjst:Hjst", "turns", "softmax over values", True, "every"),
)
SYSTEMS = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> Listed:
    if name not in SYSTEMS:
        raise InputError(no_such("system", name, SYSTEMS))
    return SYSTEMS[name]


def listing() -> Table:
    columns = ("system", "title", "encoder reads", "heads", "ontology", "best", "worst", "published 2.0", "2.1")
    rows = tuple(
        (
            *(one.name, one.title, one.feeding, one.heads, one.ontology),
            *(f"Ω({one.complexity[0]})", f"O({one.complexity[1]})", *one.published),
        )
        for one in _ENTRIES
    )
    note = (
        "Published: joint goal accuracy on the test set of MultiWOZ, each with its own encoder and training. Ontology: "
        "values that were not seen in training cannot be said. Complexity: J slots with M values each."
    )
    return Table("systems", "Systems", columns, rows, note)
