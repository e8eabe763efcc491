// What a conversation's log adds up to: entries in, frames out. Does not draw, and does not call the service.
//
// A frame is the conversation after one turn and whatever a person did before the next; frame 0 is the start.

/** The entries in force, and those that redo would do again, as in the service. */
export function inForce(entries) {
  const done = [];
  const undone = [];
  for (const entry of entries) {
    if (entry.kind === "start") continue; // it only names the schema, and cannot be undone
    if (entry.kind === "undo") undone.push(done.pop());
    else if (entry.kind === "redo") done.push(undone.pop());
    else {
      done.push(entry);
      undone.length = 0;
    }
  }
  return { done, undone };
}

/** Id of the schema in force; null is the service's own. An undo already carries the schema that it goes back to. */
export function schemaIn(entries) {
  return entries.findLast((entry) => entry.schema)?.schema.after ?? null;
}

/**
 * One frame for the start and one for every turn in force:
 * `turn` and `entry` (none for the start), `edits` after it, and at its end `state`, `pinned`, `pending`,
 * `origins` (slot to the change that wrote its value) and `touched` (slot to what happened to it in this frame).
 */
export function frames(entries) {
  const result = [{ number: 0, turn: null, entry: null, edits: [], state: new Map(), pinned: new Set(),
    pending: new Map(), origins: new Map(), touched: new Map() }];
  for (const entry of inForce(entries).done) {
    let frame = result.at(-1);
    if (entry.turn) {
      frame = { number: frame.number + 1, turn: entry.turn, entry, edits: [], state: new Map(frame.state),
        pinned: new Set(frame.pinned), pending: new Map(frame.pending), origins: new Map(frame.origins),
        touched: new Map() };
      result.push(frame);
    } else {
      frame.edits.push(entry);
    }
    apply(frame, entry);
  }
  return result;
}

function apply(frame, entry) {
  for (const change of entry.changes) {
    if (change.after === null) frame.state.delete(change.slot);
    else frame.state.set(change.slot, change.after);
    const asked = entry.released.find((item) => item.slot === change.slot);
    // A confirmed write points at the words of the turn that asked for it.
    const origin = { change, entry, turn: entry.kind === "confirm" && asked ? asked.turn : frame.number };
    frame.origins.set(change.slot, origin);
    const first = frame.touched.get(change.slot);
    frame.touched.set(change.slot, { ...origin, before: first ? first.before : change.before });
  }
  for (const item of entry.released) frame.pending.delete(item.slot);
  for (const item of entry.held) frame.pending.set(item.slot, item);
  for (const slot of entry.pinned) frame.pinned.add(slot);
  for (const slot of entry.unpinned) frame.pinned.delete(slot);
}

/** How a change is shown: `kind` is also the name of its colour and its icon. */
export function kindOf({ change, entry }) {
  if (entry.kind === "confirm") return { kind: "person", word: "confirmed" };
  if (entry.kind === "correction") {
    return { kind: "person", word: change.operation === "carryover" ? "checked" : "corrected" };
  }
  if (entry.kind === "schema") return { kind: "person", word: change.after === null ? "did not fit" : "other spelling" };
  if (change.operation === "dontcare" || change.operation === "delete") {
    return { kind: change.operation, word: change.operation };
  }
  return { kind: "update", word: change.operation };
}

/**
 * The places a value came from: words `{turn, role, start, end}` and other slots `{slot}`, whose own words follow.
 * Characters are counted as Unicode code points.
 */
export function placesOf(all, { change, turn }, depth = 0) {
  const evidence = change.evidence;
  if (!evidence) return [];
  if (evidence.source === "slot") {
    const origin = all[Math.max(0, turn - 1)]?.origins.get(evidence.slot) ?? all[turn]?.origins.get(evidence.slot);
    const further = origin && depth < 3 ? placesOf(all, origin, depth + 1) : [];
    return [{ slot: evidence.slot }, ...further];
  }
  const { source: role, start, end, turns_ago: ago = 0 } = evidence;
  return [{ turn: turn - ago, role, start, end }];
}

/** Characters [start, end) counted as Python counts them. */
export function cut(text, start, end) {
  return Array.from(text).slice(start, end).join("");
}

export const spoken = (slot) => slot.replace("-", " ").replaceAll("_", " ");
export const shown = (value) => (value === "dontcare" ? "any" : value ?? "nothing");
export const percent = (probability) => `${Math.round(probability * 100)}%`;

/** What a turn did, as a sentence for a screen reader. */
export function summary(frame) {
  const parts = Array.from(frame.touched, ([slot, { change }]) =>
    change.after === null ? `${spoken(slot)} deleted` : `${spoken(slot)} is ${shown(change.after)}`);
  const asked = Array.from(frame.pending.values()).filter((item) => item.turn === frame.number);
  const questions = asked.map((item) => `Held back: ${item.question}`);
  return `Turn ${frame.number}: ${parts.length ? parts.join(", ") : "nothing changed"}. ${questions.join(" ")}`.trim();
}
