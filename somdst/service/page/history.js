// The history of a slot as sentences, each with the words that it came from.

import { marked } from "./conversation.js";
import { cut, percent, placesOf, shown } from "./log.js";

/** The service's history of a slot as `{sentence, quote, gone}`, oldest first. */
export function tell(events, all) {
  const numbers = new Map(all.flatMap((frame) => (frame.entry ? [[frame.entry.version, frame.number]] : [])));
  return events.map((event) => ({
    sentence: sentence(event, numbers.get(event.version)),
    quote: event.kind === "undo" || event.kind === "redo" ? null : quote(event, numbers.get(event.version), all),
    gone: !event.in_force,
  }));
}

function sentence(event, number) {
  const { kind, change, pending, refused } = event;
  const who = event.source === "person" ? "A person" : "A program";
  if (kind === "turn") {
    const when = number ? `Turn ${number}` : "A turn";
    if (change) return `${when}: ${event.model ?? "the model"} ${wrote(change)}, ${percent(change.probability)} sure.`;
    if (pending) return `${when}: ${percent(pending.probability)} sure, so it asked first: ${pending.question}`;
    return `${when}: not written. ${refused?.reason ?? ""}`;
  }
  switch (kind) {
    case "correction": return `${who} ${change && change.operation !== "carryover" ? wrote(change) : "checked it: it is right"}.`;
    case "confirm": return `${who} said yes: “${shown(change?.after)}”.`;
    case "reject": return `${who} said no to “${shown(pending?.after)}”.`;
    case "pin": return `${who} pinned it: only words of a later turn change it.`;
    case "unpin": return `${who} unpinned it.`;
    case "schema": return `${who} changed the schema${refused ? `, and it was taken out. ${refused.reason}` : change ? `, which spells it “${shown(change.after)}”.` : "."}`;
    case "undo": return `${who} took something back${change ? `: it was “${shown(change.after)}” again` : ""}.`;
    default: return `${who} did it again${change ? `: “${shown(change.after)}”` : ""}.`;
  }
}

function wrote({ before, after }) {
  if (after === null) return `deleted “${shown(before)}”`;
  const what = after === "dontcare" ? "noted that there is no preference" : `wrote “${after}”`;
  return before === null ? what : `${what} instead of “${shown(before)}”`;
}

const AROUND = 32; // characters on each side of the words

/** The words with a little around them, or the slot that was copied. */
function quote(event, number, all) {
  const change = event.change ?? event.pending;
  const evidence = change?.evidence;
  if (!evidence) return null;
  if (evidence.source === "slot") return [`copied from ${evidence.slot}: “${evidence.text}”`];
  const turn = event.kind === "confirm" ? event.pending?.turn : number;
  const place = turn ? placesOf(all, { change, turn })[0] : null;
  const own = evidence.turns_ago ? null : event.turn?.[evidence.source];
  const text = place ? all[place.turn]?.turn?.[place.role] : own;
  if (!text) return null;
  const letters = Array.from(text);
  const from = wordStart(letters, evidence.start - AROUND);
  const end = evidence.end + AROUND;
  const to = end < letters.length ? Math.max(evidence.end, wordStart(letters, end)) : letters.length;
  const inner = marked(cut(text, from, to), evidence.start - from, evidence.end - from);
  return [from ? "… " : "", ...inner, to < letters.length ? "…" : ""];
}

/** Where the word at this place begins. */
function wordStart(letters, place) {
  let start = Math.max(0, place);
  while (start > 0 && letters[start - 1].trim()) start -= 1;
  return start;
}
