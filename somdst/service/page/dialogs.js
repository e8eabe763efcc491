// The small dialogs: paste a dialogue, open an earlier conversation, give an API key. The one for schemas is in
// `assistant.js`.

import { call, setApiKey } from "./api.js";
import { byId, h, iconButton } from "./dom.js";
import { readDialogue } from "./dialogues.js";
import { shown, spoken } from "./log.js";

/** Shows a dialog. If `submit` throws, its sentence is shown in the dialog. */
export function show(dialog, submit = null) {
  const form = dialog.querySelector("form");
  const fault = dialog.querySelector(".fault");
  fault.hidden = true;
  for (const button of dialog.querySelectorAll("[data-close]")) button.onclick = () => dialog.close();
  form.onsubmit = async (event) => {
    event.preventDefault();
    await saying(fault, submit);
  };
  if (!dialog.open) dialog.showModal();
  return fault;
}

/** Runs an action and shows its error as a sentence in the dialog. */
export async function saying(fault, act) {
  try {
    fault.hidden = true;
    await act?.();
  } catch (problem) {
    fault.textContent = problem.message;
    fault.hidden = false;
  }
}

/** `replay` is called with the turns of what was pasted. */
export function askForDialogue(replay) {
  const dialog = byId("paste-dialog");
  const text = byId("paste-text");
  show(dialog, () => {
    const turns = readDialogue(text.value);
    dialog.close();
    replay(turns);
  });
  text.focus();
}

/** Waits until a person has given a key. */
export function askForKey(reason) {
  const dialog = byId("key-dialog");
  return new Promise((done) => {
    const fault = show(dialog, () => {
      setApiKey(byId("key").value.trim());
      dialog.close();
      done();
    });
    fault.textContent = reason;
    fault.hidden = !reason;
    dialog.oncancel = (event) => event.preventDefault();
  });
}

/** Lists earlier conversations; `open` is called with the id of the one to show, `erased` with one that is gone. */
export async function askForConversation({ open, erased }) {
  const dialog = byId("recent-dialog");
  byId("recent-list").replaceChildren(); // the old list may be wrong, and would be replaced under the pointer
  const fault = show(dialog);
  await saying(fault, async () => {
    const { conversations } = await call("GET", "v1/conversations?limit=30");
    const items = conversations.filter((item) => item.version > (item.schema ? 1 : 0)).map((item) => row(item, dialog, fault, open, erased));
    byId("recent-list").replaceChildren(...(items.length ? items : [h("li", { class: "empty" }, "There are none yet.")]));
  });
}

function row(item, dialog, fault, open, erased) {
  const values = Object.entries(item.state).map(([slot, value]) => `${spoken(slot)} ${shown(value)}`).join(", ");
  const when = new Date(item.updated_at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const choose = () => {
    dialog.close();
    open(item.id);
  };
  const element = h("li", {},
    h("button", { type: "button", class: "choice", click: choose },
      h("strong", {}, when), h("span", {}, ` ${item.turns} ${item.turns === 1 ? "turn" : "turns"}`),
      h("small", {}, values || "nothing known")),
    iconButton("trash", `Erase the conversation of ${when} for good`, () => saying(fault, async () => {
      await call("DELETE", `v1/conversations/${item.id}`);
      element.remove();
      erased(item.id);
    })));
  return element;
}
