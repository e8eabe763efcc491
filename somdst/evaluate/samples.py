"""Sample dialogues, drawn like the paper's figures: each turn with its state, changed slots in colour, errors marked.

Slots that are NULL are left out, as there. Chooses the samples, and draws them in HTML and in Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from somdst.evaluate.run import DialogueRun, TurnRun
from somdst.evaluate.tables import counted

PAPER_SAMPLES = ("MUL2499", "PMUL3748")
"""The dialogues of the paper's figures; in the test set of MultiWOZ."""


@dataclass(frozen=True, slots=True)
class SlotLine:
    """One slot of a turn's state, as it is drawn."""

    slot: str
    value: str
    """What was predicted; if nothing was, the gold value."""
    changed: bool
    mark: Literal["right", "wrong", "extra", "missing"]
    gold: str = ""
    """Where the predicted value is wrong."""
    operation: str = ""


def choose_samples(runs: Sequence[DialogueRun], *, count: int = 4) -> list[DialogueRun]:
    """The paper's, if they are among the runs; then alternately one without a mistake and one with."""
    chosen = [run for run in runs if run.id.removesuffix(".json") in PAPER_SAMPLES]
    rest = sorted((run for run in runs if run not in chosen and len(run.turns) <= 10), key=_interest, reverse=True)
    right = [run for run in rest if all(turn.correct for turn in run.turns)]
    wrong = [run for run in rest if not all(turn.correct for turn in run.turns)]
    while len(chosen) < count and (right or wrong):
        for pile in (right, wrong):
            if pile and len(chosen) < count:
                chosen.append(pile.pop(0))
    return chosen


def _interest(run: DialogueRun) -> tuple[int, int, str]:
    domains = {slot.split("-")[0] for turn in run.turns for slot in turn.gold}
    kinds = {operation for turn in run.turns for operation in turn.prediction.operations.values()}
    return len(domains) + len(kinds), len(run.turns), run.id


def slot_lines(turn: TurnRun) -> list[SlotLine]:
    lines = []
    for slot in sorted(turn.predicted.keys() | turn.gold.keys() | turn.prediction.slots.keys()):
        predicted, gold, before = turn.predicted.get(slot), turn.gold.get(slot), turn.fed.get(slot)
        operation = str(turn.prediction.slots[slot].operation) if slot in turn.prediction.slots else ""
        changed = predicted != before
        if predicted is None and gold is None:
            if changed:  # rightly deleted: worth a line, for this turn only
                lines.append(SlotLine(slot, str(before), True, "right", operation=operation))
        elif predicted is None:
            lines.append(SlotLine(slot, str(gold), changed, "missing", str(gold), operation))
        elif predicted == gold:
            lines.append(SlotLine(slot, str(predicted), changed, "right", operation=operation))
        elif gold is None:
            lines.append(SlotLine(slot, str(predicted), changed, "extra", operation=operation))
        else:
            lines.append(SlotLine(slot, str(predicted), changed, "wrong", str(gold), operation))
    return lines


_NOTES = {"right": "", "wrong": "should be {gold}", "extra": "should be empty", "missing": "missing"}


def sample_html(run: DialogueRun) -> str:
    right = sum(turn.correct for turn in run.turns)
    turns = "".join(_turn_html(number, turn) for number, turn in enumerate(run.turns, start=1))
    head = f"<summary><b>{escape(run.id)}</b> <span>{right} of {counted(len(run.turns), 'turn')} right</span></summary>"
    return f'<details class="sample" open>{head}<ol>{turns}</ol></details>'


def _turn_html(number: int, turn: TurnRun) -> str:
    system = f'<p class="system">{escape(turn.turn.system)}</p>' if turn.turn.system else ""
    user = f'<p class="user">{_highlighted(turn)}</p>'
    lines = "".join(map(_line_html, slot_lines(turn))) or '<li class="empty">nothing known yet</li>'
    verdict = '<b class="right">✓</b>' if turn.correct else '<b class="wrong">✗</b>'
    said = f'<div class="said"><h4>Turn {number} {verdict}</h4>{system}{user}</div>'
    return f'<li class="turn">{said}<ul class="state">{lines}</ul></li>'


def _line_html(line: SlotLine) -> str:
    classes = f"{line.mark}{' changed' if line.changed else ''}"
    operation = f"<em>{line.operation}</em>" if line.operation and line.operation != "update" else ""
    note = _NOTES[line.mark].format(gold=line.gold)
    value = f"<s>{escape(line.value)}</s>" if line.operation == "delete" and line.changed else escape(line.value)
    noted = f"<small>{escape(note)}</small>" if note else ""
    return f'<li class="{classes}"><span>{escape(line.slot)}</span> <b>{value}</b>{operation}{noted}</li>'


def _highlighted(turn: TurnRun) -> str:
    """The user's words, with those marked that a value was copied from."""
    text, pieces, done = turn.turn.user, [], 0
    found = [p.evidence for p in turn.prediction.slots.values() if p.evidence and p.evidence.is_of("user")]
    for span in sorted(found, key=lambda evidence: evidence.start):
        if done <= span.start < span.end <= len(text):
            pieces += [escape(text[done : span.start]), f"<mark>{escape(text[span.start : span.end])}</mark>"]
            done = span.end
    return "".join(pieces) + escape(text[done:])


def sample_markdown(run: DialogueRun) -> str:
    lines = [f"#### {run.id}", "", "| turn | said | state after it (changes in bold) | |", "| --: | :-- | :-- | :-- |"]
    for number, turn in enumerate(run.turns, start=1):
        system = f"*{turn.turn.system}*<br>" if turn.turn.system else ""
        state = "<br>".join(map(_line_markdown, slot_lines(turn)))
        cells = (f"{system}{turn.turn.user}", state)
        said, shown = (" ".join(cell.replace("|", "\\|").split()) for cell in cells)
        lines.append(f"| {number} | {said} | {shown} | {'✓' if turn.correct else '✗'} |")
    return "\n".join(lines)


def _line_markdown(line: SlotLine) -> str:
    text = f"{line.slot} = {line.value}"
    note = _NOTES[line.mark].format(gold=line.gold)
    operation = f" ({line.operation})" if line.operation and line.operation != "update" else ""
    return (f"**{text}**" if line.changed else text) + operation + (f" ✗ {note}" if note else "")
