// Draws the memory at one frame: slots by domain, what happened to them, questions, and the forms to change them.

import { reveal } from "./conversation.js";
import { byId, h, icon, iconButton } from "./dom.js";
import { kindOf, percent, shown, spoken } from "./log.js";

/**
 * `schema` is the service's; `every` shows empty slots too; `live` is false for the past, which cannot be changed.
 * `acts` has what a person can do: correct, pin, unpin, takeBack, confirm, reject, light, history.
 */
export function drawMemory(frame, { schema, every, live, acts }) {
  drawPending(frame, live, acts);
  drawRefused(frame);
  const groups = domains(frame, schema, every).map(([domain, slots]) =>
    h("section", { class: "domain", "aria-label": domain },
      h("h3", {}, domain),
      h("ul", {}, slots.map((slot) => drawRow(frame, slot, live, acts)))));
  byId("slots").replaceChildren(...(groups.length ? groups : [emptyNote(frame, schema)]));
}

/** Scrolls to the first slot that changed, if the memory is longer than its box. */
export function revealChanges() {
  const first = document.querySelector(".row.touched");
  if (first) reveal(document.querySelector(".kept"), first);
}

function emptyNote(frame, schema) {
  if (frame.number) return h("p", { class: "empty" }, "Nothing is known yet.");
  return h("div", { class: "empty" },
    h("p", {}, "Empty, as before every conversation. What the tracker learns appears here, slot by slot."),
    h("dl", {}, schema.domains.flatMap((domain) => [
      h("dt", {}, domain),
      h("dd", {}, schema.slots.filter((item) => item.domain === domain).map((item) => item.name).join(", ")),
    ])));
}

/** Domain to the slots to show. A slot that an older model knew is shown too. */
function domains(frame, schema, every) {
  const here = (slot) => every || frame.state.has(slot) || frame.touched.has(slot);
  const known = new Map(schema.domains.map((domain) => [domain, []]));
  const names = new Set(schema.slots.map((item) => item.slot));
  for (const item of schema.slots) if (here(item.slot)) known.get(item.domain).push(item);
  for (const slot of frame.state.keys()) {
    if (names.has(slot)) continue;
    const [domain, ...rest] = slot.split("-");
    if (!known.has(domain)) known.set(domain, []);
    known.get(domain).push({ slot, domain, name: rest.join("-"), description: "", values: null });
  }
  return [...known].filter(([, slots]) => slots.length);
}

function drawRow(frame, item, live, acts) {
  const { slot } = item;
  const touched = frame.touched.get(slot);
  const origin = frame.origins.get(slot);
  const kind = touched ? kindOf(touched) : null;
  const row = h("li", { class: `row${kind ? ` touched op-${kind.kind}` : ""}`, "data-slot": slot });
  row.append(
    h("span", { class: "name", title: item.description || null }, item.name),
    valueOf(frame, item, touched, row, acts),
    h("span", { class: "sure" },
      kind && h("span", { class: "badge" }, icon(kind.kind), kind.word),
      frame.state.has(slot) || touched ? certainty(origin) : null),
    h("span", { class: "actions" }, live ? actions(frame, item, touched, row, acts) : pinSign(frame, slot)),
  );
  return row;
}

function valueOf(frame, item, touched, row, acts) {
  const { slot } = item;
  const value = frame.state.get(slot);
  const before = touched && touched.before !== (value ?? null) ? touched.before : null;
  const old = before === null ? null : h("s", { class: "before" }, h("span", { class: "unseen" }, "before: "), shown(before));
  if (value === undefined && !touched) return h("span", { class: "what" }, h("span", { class: "nothing" }, "–"));
  const label = value === undefined ? "nothing" : shown(value);
  const button = h("button", { type: "button", "data-key": `value:${slot}`, "aria-expanded": "false",
    class: `value${value === undefined ? " nothing" : ""}${value === "dontcare" ? " any" : ""}`,
    title: "Why this value?", click: () => toggleWhy(row, item, button, acts) },
  label, h("span", { class: "unseen" }, `, ${spoken(slot)}: why this value?`));
  const lit = () => acts.light(frame, slot);
  row.addEventListener("pointerenter", lit);
  row.addEventListener("pointerleave", () => acts.light(frame, null));
  button.addEventListener("focus", lit);
  button.addEventListener("blur", () => acts.light(frame, null));
  return h("span", { class: "what" }, old, button);
}

function certainty(origin) {
  const probability = origin?.change.probability;
  if (origin?.entry.kind === "correction" || probability === null || probability === undefined) {
    return h("span", { class: "probability" }, origin?.entry.source === "api" ? "by a program" : "by hand");
  }
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("span", {}));
  bar.firstChild.style.inlineSize = percent(probability);
  return h("span", { class: "probability", title: "Probability that this is right" }, bar,
    h("span", { class: "unseen" }, "probability "), percent(probability));
}

function actions(frame, item, touched, row, acts) {
  const { slot } = item;
  const pinned = frame.pinned.has(slot);
  const filled = frame.state.has(slot);
  const key = (name) => ({ "data-key": `${name}:${slot}` });
  return [
    touched && iconButton("undo", `Take back: ${spoken(slot)} was ${shown(touched.before)}`,
      () => acts.takeBack(slot), key("back")),
    iconButton("person", filled ? `Correct ${spoken(slot)}` : `Set ${spoken(slot)}`,
      () => openEditor(row, item, frame, acts), key("edit")),
    iconButton("pin", pinned ? `Unpin ${spoken(slot)}` : `Pin ${spoken(slot)}`,
      () => (pinned ? acts.unpin(slot) : acts.pin(slot)), { "aria-pressed": String(pinned), ...key("pin") }),
  ];
}

function pinSign(frame, slot) {
  return frame.pinned.has(slot)
    ? h("span", { class: "pinned", title: "Pinned" }, icon("pin"), h("span", { class: "unseen" }, "pinned")) : null;
}

// Correcting

function openEditor(row, item, frame, acts) {
  closeEditors();
  const { slot } = item;
  const back = () => {
    closeEditors();
    row.querySelector(`[data-key="${CSS.escape(`edit:${slot}`)}"]`)?.focus();
  };
  const input = h("input", { id: "correction", autocomplete: "off", value: frame.state.get(slot) ?? "",
    list: item.values ? "allowed" : null });
  const pin = h("input", { type: "checkbox", id: "correction-pin", checked: frame.pinned.has(slot) });
  const send = (value) => acts.correct(slot, value, pin.checked);
  const form = h("form", {
    class: "editor",
    submit: (event) => {
      event.preventDefault();
      send(input.value.trim() || null);
    },
    keydown: (event) => {
      if (event.key === "Escape") back();
    },
  },
  h("label", { for: "correction", class: "unseen" }, `New value of ${spoken(slot)}`), input,
  item.values && h("datalist", { id: "allowed" }, item.values.map((value) => h("option", { value }))),
  h("div", { class: "buttons" },
    h("button", { type: "submit", class: "primary" }, "Save"),
    h("button", { type: "button", click: () => send("dontcare") }, "Any"),
    h("button", { type: "button", click: () => send(null) }, "Delete"),
    h("label", { class: "switch", for: "correction-pin" }, pin, h("span", {}, "Pin")),
    h("button", { type: "button", class: "link", click: back }, "Cancel")));
  row.append(form);
  form.scrollIntoView({ block: "nearest" });
  input.focus({ preventScroll: true });
  input.select();
}

function closeEditors() {
  for (const form of document.querySelectorAll(".editor")) form.remove();
}

// Why does this slot have its value?

async function toggleWhy(row, item, button, acts) {
  const open = row.querySelector(".why");
  if (open) {
    open.remove();
    button.setAttribute("aria-expanded", "false");
    return;
  }
  const events = await acts.history(item.slot);
  if (!events || row.querySelector(".why")) return;
  button.setAttribute("aria-expanded", "true");
  row.append(h("div", { class: "why", role: "group", "aria-label": `History of ${spoken(item.slot)}` },
    item.description && h("p", { class: "about" }, `The ${item.description}.`),
    h("ol", {}, events.map(({ sentence, quote, gone }) =>
      h("li", { class: gone ? "gone" : null }, h("span", {}, sentence), gone && h("em", {}, " undone since"),
        quote && h("q", {}, ...quote))))));
}

// Writes held back, and refused

function drawPending(frame, live, acts) {
  byId("pending").replaceChildren(...Array.from(frame.pending.values(), (item) => {
    const lit = () => acts.lightChange(item, item.turn);
    return h("div", { class: "question op-pending", role: "group", "aria-label": `Question about ${spoken(item.slot)}`,
      pointerenter: lit, pointerleave: () => acts.light(frame, null), focusin: lit,
      focusout: () => acts.light(frame, null) },
    icon("pending"),
    h("p", {}, h("strong", {}, item.question),
      h("small", {}, ` ${percent(item.probability)} sure, so ${spoken(item.slot)} has waited since turn ${item.turn}`)),
    live && h("span", { class: "buttons" },
      h("button", { type: "button", "data-key": `confirm:${item.slot}`, click: () => acts.confirm(item.slot),
        "aria-label": `Yes, ${spoken(item.slot)}` }, icon("check"), h("span", {}, "Yes")),
      h("button", { type: "button", "data-key": `reject:${item.slot}`, click: () => acts.reject(item.slot),
        "aria-label": `No, ${spoken(item.slot)}` }, icon("cross"), h("span", {}, "No"))));
  }));
}

function drawRefused(frame) {
  const refused = frame.entry?.refused ?? [];
  byId("refused").replaceChildren(...refused.map((item) =>
    h("p", {}, icon("warning"), `Not written: ${item.reason}`)));
}
