// Draws the whole dialogue as a table of slots and turns: a value where it was written, a line for as long as it is kept.

import { byId, h, icon } from "./dom.js";
import { kindOf, shown } from "./log.js";

/** `look` is called with the number of a turn, `light` with a frame and a slot, or no slot. */
export function drawGrid(all, looked, { schema, look, light }) {
  const columns = all.filter((frame) => frame.number || frame.edits.length);
  const rows = slotsIn(columns, schema);
  byId("grid-empty").hidden = columns.length > 0;
  byId("grid").hidden = !columns.length;
  byId("grid").replaceChildren(
    h("caption", { class: "unseen" }, "The value of every slot after every turn"),
    h("thead", {}, h("tr", {}, h("td", {}), columns.map((frame) => columnHead(frame, looked, look)))),
    h("tbody", {}, rows.flatMap(([domain, slots]) => [
      h("tr", { class: "group" }, h("th", { scope: "rowgroup" }, domain), columns.map((frame) =>
        h("td", { class: frame.number === looked ? "looked" : null }))),
      ...slots.map(({ slot, name }) =>
        h("tr", {}, h("th", { scope: "row" }, name), columns.map((frame) => cell(frame, slot, looked, light)))),
    ])),
  );
  showColumn();
}

/** Scrolls sideways until the column that is shown is visible beside the names. */
function showColumn() {
  const head = document.querySelector("#grid thead .looked");
  if (!head) return;
  const box = document.querySelector(".sideways");
  const names = document.querySelector("#grid thead td").offsetWidth;
  const far = head.offsetLeft + head.offsetWidth - box.clientWidth;
  if (far > box.scrollLeft) box.scrollLeft = far;
  if (head.offsetLeft - names < box.scrollLeft) box.scrollLeft = head.offsetLeft - names;
}

function slotsIn(columns, schema) {
  const seen = new Set(columns.flatMap((frame) => [
    ...frame.state.keys(), ...frame.touched.keys(), ...frame.pending.keys(),
  ]));
  const groups = new Map();
  for (const slot of [...seen].sort()) {
    const known = schema.slots.find((item) => item.slot === slot);
    const [domain, name] = known ? [known.domain, known.name] : [slot.split("-")[0], slot.split("-").slice(1).join("-")];
    groups.set(domain, [...(groups.get(domain) ?? []), { slot, name }]);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
}

function columnHead(frame, looked, look) {
  const { number } = frame;
  const label = number ? `Turn ${number}: ${frame.turn.user || frame.turn.system}` : "Before the first turn";
  return h("th", { scope: "col", class: number === looked ? "looked" : null },
    h("button", { type: "button", "data-key": `column:${number}`, title: label, click: () => look(number),
      "aria-label": number ? `Turn ${number}` : label, "aria-current": number === looked ? "step" : null },
    String(number)));
}

function cell(frame, slot, looked, light) {
  const value = frame.state.get(slot);
  const touched = frame.touched.get(slot);
  const pending = frame.pending.get(slot);
  const place = frame.number === looked ? " looked" : frame.number > looked ? " later" : "";
  if (touched) {
    const { kind, word } = kindOf(touched);
    return h("td", { class: `written op-${kind}${place}`, pointerenter: () => light(frame, slot),
      pointerleave: () => light(frame, null), title: `${word}: ${shown(touched.change.after)}` },
    h("span", {}, icon(kind), value === undefined
      ? h("s", {}, shown(touched.before)) : h("span", { class: "cut" }, shown(value))));
  }
  if (pending && pending.turn === frame.number) {
    return h("td", { class: `held op-pending${place}`, title: pending.question },
      h("span", {}, icon("pending"), h("span", { class: "cut" }, shown(pending.after))));
  }
  if (value !== undefined) {
    return h("td", { class: `kept${place}`, title: shown(value) }, h("span", { class: "unseen" }, shown(value)));
  }
  return h("td", { class: place.trim() || null });
}
