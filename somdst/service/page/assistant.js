// The dialog in which a person brings a schema: as a form, as text or as a file. The service checks it as they type.

import { Problem, call } from "./api.js";
import { saying, show } from "./dialogs.js";
import { byId, h, iconButton } from "./dom.js";
import { emptyRow, isEmpty, toDefinition, toRows, toText } from "./schemas.js";

const PAUSE = 300; // milliseconds without a key before the service is asked
const LARGEST = 200_000; // characters of a file

/** Schemas to start from: the files beside this one. */
export const EXAMPLES = [
  { file: "dentist.yaml", title: "A dentist's appointment", about: "Treatment, day, time, insurance, who comes." },
  { file: "pizza.yaml", title: "A pizza order", about: "Size, crust, toppings, and where to bring it." },
  { file: "ticket.yaml", title: "A support ticket", about: "Product, problem, urgency, how to reach the user." },
];

export async function readExample({ file }) {
  const answer = await fetch(`static/${file}`).catch(() => null);
  if (!answer?.ok) throw new Problem("This example cannot be read: check that the service is still running.");
  return answer.text();
}

/** The line after "# Try:" in a schema file: something to say to this assistant. */
export const hintIn = (text) => /^# Try: (.+)$/m.exec(text)?.[1] ?? null;

// What is in the dialog. It stays there when the dialog is closed, so that nothing that was typed is lost.
const draft = { rows: [emptyRow()], rest: {}, mode: "form", edited: null, asked: 0, timer: null };

/**
 * `current` is the schema in use, in the form of a file, or null. `live` is whether there is a conversation that could go
 * on under the new one. `chosen` is called with the stored schema, whether it is for that conversation, and a hint.
 */
export function askForSchema({ current, live, chosen }) {
  const dialog = byId("assistant-dialog");
  const choose = async (here) => {
    const view = await call("POST", "v1/schemas", { schema: given() });
    const hint = draft.mode === "text" || draft.edited !== "form" ? hintIn(byId("schema-text").value) : null;
    dialog.close();
    await chosen(view, { here, hint });
  };
  const fault = show(dialog, () => choose(false));
  byId("use-here").hidden = !live;
  byId("use-here").onclick = () => saying(fault, () => choose(true));
  byId("save-schema").onclick = () => saying(fault, save);
  byId("add-slot").onclick = () => addRow(draft.rows.length);
  byId("schema-file").onchange = (event) => saying(fault, () => open(event.target));
  byId("schema-text").oninput = () => soon("text");
  for (const tab of tabs()) {
    tab.onclick = () => saying(fault, () => turnTo(tab.dataset.mode));
    tab.onkeydown = (event) => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      event.preventDefault();
      saying(fault, () => turnTo(draft.mode === "form" ? "text" : "form", { focus: true }));
    };
  }
  byId("schema-examples").replaceChildren(...EXAMPLES.map((example) => h("button", { type: "button",
    click: () => saying(fault, async () => load(await readExample(example))) }, example.title)));
  if (current && draft.edited === null) load(toText(current));
  else {
    drawMode();
    check();
  }
}

// The two ways to write it

const tabs = () => document.querySelectorAll('#assistant-dialog [role="tab"]');

/** What the service is asked about: text, or the schema of the form. */
function given() {
  return draft.mode === "text" ? byId("schema-text").value : toDefinition(draft.rows, draft.rest);
}

const blank = () => (draft.mode === "text" ? !byId("schema-text").value.trim() : draft.rows.every(isEmpty));

/** Shows the form or the text. Whichever was edited last is carried over to the other, if it can be read. */
async function turnTo(mode, { focus = false } = {}) {
  if (mode !== draft.mode && draft.edited === draft.mode) {
    if (mode === "form") await fill(byId("schema-text").value);
    else byId("schema-text").value = blank() ? "" : toText(toDefinition(draft.rows, draft.rest));
    draft.edited = "both";
  }
  draft.mode = mode;
  drawMode();
  if (focus) [...tabs()].find((tab) => tab.dataset.mode === mode).focus();
  check();
}

/** Takes over the text of a file. */
async function load(text) {
  byId("schema-text").value = text;
  draft.edited = "text";
  if (draft.mode === "form") {
    try {
      await fill(text);
      draft.edited = "both";
    } catch {
      draft.mode = "text"; // it cannot be shown as a form: the check below says what is wrong with it
    }
  }
  drawMode();
  check();
}

async function fill(text) {
  const empty = { rows: [emptyRow()], rest: {} };
  Object.assign(draft, text.trim() ? toRows((await call("POST", "v1/schemas/check", { schema: text })).definition) : empty);
}

function drawMode() {
  for (const tab of tabs()) {
    const here = tab.dataset.mode === draft.mode;
    tab.setAttribute("aria-selected", String(here));
    tab.tabIndex = here ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !here;
  }
  drawRows();
}

// The form

const FIELDS = [
  ["topic", "Topic", "pizza"], ["name", "Slot", "size"], ["description", "Description", "how large it is"],
  ["values", "Allowed values", "small, medium, large"],
];

function drawRows() {
  byId("slot-rows").replaceChildren(...draft.rows.map((row, index) =>
    h("fieldset", { class: "slot-row" },
      h("legend", { class: "unseen" }, `Slot ${index + 1}`),
      FIELDS.map(([field, label, example]) => h("label", { class: field }, h("span", {}, label),
        h("input", { autocomplete: "off", value: row[field], placeholder: index || !isEmpty(row) ? null : example, "data-field": field,
          input: (event) => {
            row[field] = event.target.value;
            soon("form");
          },
          keydown: (event) => {
            if (event.key !== "Enter" || event.isComposing) return;
            event.preventDefault(); // the next slot, not the end of the form
            addRow(index + 1);
          } }))),
      iconButton("trash", `Remove slot ${index + 1}`, () => removeRow(index)))));
}

function addRow(index) {
  draft.rows.splice(index, 0, emptyRow(draft.rows[index - 1]?.topic));
  drawRows();
  const row = byId("slot-rows").children[index];
  row.querySelector(`[data-field="${draft.rows[index].topic ? "name" : "topic"}"]`).focus();
}

function removeRow(index) {
  draft.rows.splice(index, 1);
  if (!draft.rows.length) draft.rows.push(emptyRow());
  drawRows();
  byId("slot-rows").children[Math.min(index, draft.rows.length - 1)].querySelector("input").focus();
  soon("form");
}

// Checks

function soon(edited) {
  draft.edited = edited;
  draft.asked += 1; // an answer that is on its way is about something else by now
  clearTimeout(draft.timer);
  draft.timer = setTimeout(check, PAUSE);
}

async function check() {
  const asked = (draft.asked += 1);
  let said;
  try {
    const { slots, domains, remarks } = await call("POST", "v1/schemas/check", { schema: given() });
    const count = `Ready: ${slots.length} ${slots.length === 1 ? "slot" : "slots"} about ${domains.join(", ")}.`;
    const more = remarks.length > 2 ? [`There are ${remarks.length - 2} more remarks like these.`] : [];
    said = ["good", [count, ...remarks.slice(0, 2), ...more].join(" ")];
  } catch (problem) {
    said = blank() ? ["", "Add a slot: a name is enough, and a description helps."] : ["bad", problem.message];
  }
  if (asked !== draft.asked) return;
  const line = byId("schema-check");
  [line.dataset.state, line.textContent] = said;
}

// Files

function save() {
  const text = draft.mode === "text" ? byId("schema-text").value : toText(toDefinition(draft.rows, draft.rest));
  if (!text.trim()) throw new Problem("There is nothing to save yet: add a slot first.");
  const json = /^\s*[[{]/.test(text);
  const address = URL.createObjectURL(new Blob([text], { type: json ? "application/json" : "application/yaml" }));
  h("a", { href: address, download: json ? "schema.json" : "schema.yaml" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function open(input) {
  const [file] = input.files;
  if (!file) return;
  const text = await file.text();
  input.value = ""; // so that the same file can be opened again
  if (text.length > LARGEST) throw new Problem(`This file has ${text.length} characters and at most ${LARGEST} are read.`);
  await load(text);
}
