// Draws what was said, and highlights words in it.

import { byId, h, icon } from "./dom.js";
import { kindOf, shown, spoken } from "./log.js";

/** Draws all turns; those after the one that is shown are faded. `look` is called with a turn's number. */
export function drawConversation(all, looked, look) {
  byId("welcome").hidden = all.length > 1 || all[0].edits.length > 0;
  byId("turns").replaceChildren(
    ...all[0].edits.map(editNote),
    ...all.slice(1).flatMap((frame) => [drawTurn(frame, looked, look), ...frame.edits.map(editNote)]),
  );
}

function drawTurn(frame, looked, look) {
  const { number, turn } = frame;
  const place = number === looked ? " looked" : number > looked ? " later" : "";
  return h("li", { class: `turn${place}`, "data-number": number },
    turn.system && utterance(number, "system", turn.system),
    turn.user && utterance(number, "user", turn.user),
    h("button", { type: "button", class: "did", "data-key": `turn:${number}`, click: () => look(number),
      "aria-current": number === looked ? "step" : null },
    h("span", { class: "number" }, `Turn ${number}`), ...doings(frame)));
}

function utterance(number, role, text) {
  return h("p", { class: `utterance ${role}` },
    h("span", { class: "who" }, role === "user" ? "User" : "System"),
    h("span", { class: "text", "data-turn": number, "data-role": role }, text));
}

const MOST = 3;

function doings({ entry }) {
  const { changes, held } = entry;
  if (!changes.length && !held.length) return [h("span", { class: "none" }, "nothing changed")];
  const marks = [
    ...changes.map((change) => mark(kindOf({ change, entry }).kind, change.slot)),
    ...held.map((item) => mark("pending", item.slot)),
  ];
  const more = marks.length - MOST;
  return more > 0 ? [...marks.slice(0, MOST), h("span", { class: "none" }, `and ${more} more`)] : marks;
}

const mark = (kind, slot) => h("span", { class: `mark op-${kind}` }, icon(kind), spoken(slot));

function editNote(entry) {
  return h("li", { class: "note" }, icon(entry.kind.endsWith("pin") ? "pin" : "person"), editSentence(entry));
}

function editSentence(entry) {
  const who = entry.source === "person" ? "A person" : "A program";
  const slots = [...new Set([...entry.changes, ...entry.released].map((item) => item.slot))].map(spoken).join(", ");
  switch (entry.kind) {
    case "correction": {
      const values = entry.changes.map((change) =>
        change.after === null ? `deleted ${spoken(change.slot)}` : `set ${spoken(change.slot)} to ${shown(change.after)}`);
      return `${who} ${values.join(", ")}${entry.pinned.length ? " and pinned it" : ""}`;
    }
    case "pin": return `${who} pinned ${entry.pinned.map(spoken).join(", ")}`;
    case "unpin": return `${who} unpinned ${entry.unpinned.map(spoken).join(", ")}`;
    case "confirm": return `${who} confirmed ${slots}`;
    case "schema": {
      const lost = entry.refused.map((item) => `${spoken(item.slot)} “${shown(item.after)}”: ${item.reason}`);
      return `${who} changed the schema. ${lost.length ? `Not kept: ${lost.join(" ")}` : "Everything was kept."}`;
    }
    default: return `${who} rejected ${slots}`;
  }
}

/** A turn that is being tracked. */
export function drawWaiting({ system, user }) {
  byId("welcome").hidden = true;
  byId("turns").append(h("li", { class: "turn waiting" },
    system && utterance(0, "system", system), user && utterance(0, "user", user),
    h("p", { class: "did" }, "Tracking …")));
  toTheEnd();
}

export function toTheEnd() {
  const box = byId("said");
  box.scrollTop = box.scrollHeight;
}

/** Scrolls the box, never the page, until something in it can be seen. */
export function reveal(box, element) {
  const outer = box.getBoundingClientRect();
  const inner = element.getBoundingClientRect();
  if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - outer.height / 3;
}

/** Highlights these words and slots, and no others. */
export function light(places) {
  for (const lit of document.querySelectorAll(".text:has(mark)")) lit.textContent = lit.textContent;
  for (const lit of document.querySelectorAll(".row.lit")) lit.classList.remove("lit");
  for (const place of places) {
    if (place.slot) document.querySelector(`.row[data-slot="${CSS.escape(place.slot)}"]`)?.classList.add("lit");
    else lightWords(place);
  }
  const first = document.querySelector("#said mark");
  if (first) reveal(byId("said"), first);
}

function lightWords({ turn, role, start, end }) {
  const element = document.querySelector(`#said .text[data-turn="${turn}"][data-role="${role}"]`);
  if (element) element.replaceChildren(...marked(element.textContent, start, end));
}

/** Text with some of its characters, counted as code points, in a mark. */
export function marked(text, start, end) {
  const letters = Array.from(text);
  return [
    letters.slice(0, start).join(""),
    h("mark", {}, letters.slice(start, end).join("")),
    letters.slice(end).join(""),
  ];
}
