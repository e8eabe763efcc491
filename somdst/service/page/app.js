// The page: holds one conversation, sends what a person does to the service, and draws what comes back.
//
// The service is the only memory. Every write sends the version that the person saw, and is answered with one more entry
// of the log. Everything that is drawn is computed from that log (`log.js`).

import { Problem, apiKey, call, onceKey } from "./api.js";
import { EXAMPLES, askForSchema, hintIn, readExample } from "./assistant.js";
import { drawConversation, drawWaiting, light, reveal, toTheEnd } from "./conversation.js";
import { asCurl, asJson } from "./dialogues.js";
import { askForConversation, askForDialogue, askForKey } from "./dialogs.js";
import { announce, byId, h, icon, keepingFocus } from "./dom.js";
import { drawGrid } from "./grid.js";
import { tell } from "./history.js";
import { frames, inForce, placesOf, schemaIn, spoken, summary } from "./log.js";
import { drawMemory, revealChanges } from "./memory.js";
import { Replay } from "./replay.js";

const PART = 1000; // entries of a log in one request

const page = {
  id: null,
  entries: [],
  all: frames([]),
  looked: null, // number of the turn that is shown; null for the newest
  schema: { domains: [], slots: [] }, // that of the conversation
  schemas: new Map(), // by id; null is the service's own
  own: null, // the person's own, for new conversations; null for the service's
  hint: null, // something to say to it
  model: null,
  examples: [],
  replay: null,
  last: Promise.resolve(), // the action under way: the next one waits for it
  unsent: null, // the turn that got no answer, with its idempotency key
};

const now = () => page.all.length - 1;
const looked = () => Math.min(page.looked ?? now(), now());

// Drawing

function draw() {
  const frame = page.all[looked()];
  keepingFocus(() => {
    drawConversation(page.all, looked(), look);
    drawMemory(frame, { schema: page.schema, every: byId("every").checked, live: looked() === now(), acts });
    drawGrid(page.all, looked(), { schema: page.schema, look, light: lightSlot });
    drawSlider();
    drawUndo();
    drawWelcome();
    drawModel();
  });
}

function drawSlider() {
  const past = looked() < now();
  const slider = byId("turn");
  slider.max = now();
  slider.value = looked();
  slider.disabled = now() === 0;
  slider.setAttribute("aria-valuetext", looked() ? `after turn ${looked()} of ${now()}` : "before the first turn");
  byId("turn-text").textContent = `${looked()} of ${now()}`;
  byId("to-now").hidden = !past;
  byId("as-of").textContent = now() === 0 ? "" : looked() ? `after turn ${looked()}` : "before turn 1";
  document.body.classList.toggle("past", past);
}

function drawUndo() {
  const { done, undone } = inForce(page.entries);
  for (const [id, entry] of [["undo", done.at(-1)], ["redo", undone.at(-1)]]) {
    const kind = entry?.kind === "schema" ? "change of schema" : entry?.kind;
    const what = entry ? `${id === "undo" ? "Undo" : "Redo"} the ${entry.turn ? "turn" : kind}` : null;
    byId(id).setAttribute("aria-disabled", String(!entry));
    byId(id).title = what ?? `There is nothing to ${id}`;
  }
}

function look(number) {
  page.looked = number === now() ? null : number;
  draw();
  const turn = document.querySelector(`.turn[data-number="${number}"]`);
  if (turn) reveal(byId("said"), turn);
  revealChanges();
}

function lightSlot(frame, slot) {
  const origin = slot && (frame.origins.get(slot) ?? frame.touched.get(slot));
  light(origin ? placesOf(page.all, origin) : []);
}

// Asking the service

function complain(problem) {
  if (!(problem instanceof Problem)) console.error(problem);
  const sentence = problem instanceof Problem ? problem.message : "Something went wrong on this page: reload it.";
  byId("problem").querySelector("p").textContent = sentence;
  byId("problem").hidden = false;
}

/** Runs one action after the other and shows errors as sentences. Resolves to whether the action succeeded. */
function doing(act) {
  page.last = page.last.then(async () => {
    try {
      byId("problem").hidden = true;
      await act();
      return true;
    } catch (problem) {
      complain(problem);
      return false;
    }
  });
  return page.last;
}

async function start() {
  const { id } = await call("POST", "v1/conversations", page.own ? { schema: page.own.id } : {});
  if (page.own) await read(id); // its first entry names the schema
  else show(id, []);
}

/** Reads the schema of a log, unless it is known. */
async function know(entries) {
  const id = schemaIn(entries);
  if (!page.schemas.has(id)) page.schemas.set(id, await call("GET", `v1/schemas/${id}`));
}

function show(id, entries) {
  const schema = page.schemas.get(id ? schemaIn(entries) : page.own?.id ?? null) ?? page.schema;
  Object.assign(page, { id, entries, schema, all: frames(entries), looked: null });
  history.replaceState(null, "", id ? `#${id}` : location.pathname);
  draw();
}

async function read(id) {
  const entries = [];
  for (let more = true; more;) {
    const part = await call("GET", `v1/conversations/${id}/log?after=${entries.length}&limit=${PART}`);
    entries.push(...part.entries);
    more = part.entries.length === PART;
  }
  await know(entries);
  page.own = schemaIn(entries) ? page.schemas.get(schemaIn(entries)) : null;
  show(id, entries);
  toTheEnd();
}

/** Sends one write and adds its entry to the log. If somebody else changed the conversation, it is read again. */
async function write(action, body, once = onceKey()) {
  if (!page.id) await start();
  let answer;
  try {
    const version = page.entries.length;
    answer = await call("POST", `v1/conversations/${page.id}/${action}`, { ...body, version }, { once });
  } catch (problem) {
    if (problem.status !== 409) throw problem;
    await read(page.id);
    throw new Problem("Somebody else changed this conversation in the meantime: it was read again. Check it, then repeat your change.");
  }
  const entries = [...page.entries, answer.entry];
  if (answer.entry.version !== entries.length) await read(page.id);
  else {
    await know(entries);
    show(page.id, entries);
  }
  return answer.entry;
}

/** Tracks a turn. One that got no answer is sent again with the same key, so that it is never tracked twice. */
function track(turn) {
  return doing(async () => {
    if (!page.id) await start();
    const last = page.unsent;
    const same = last && last.id === page.id && last.user === turn.user && last.system === turn.system;
    const once = same && last.version === page.entries.length ? last.once : onceKey();
    page.unsent = { ...turn, once, version: page.entries.length };
    page.looked = null;
    drawWaiting(turn);
    try {
      await write("turns", { system: turn.system, user: turn.user }, once);
      page.unsent = null;
    } catch (problem) {
      page.unsent.id = page.id; // a first turn makes the conversation that it belongs to
      draw();
      throw problem;
    }
    toTheEnd();
    revealChanges();
    announce(summary(page.all[now()]));
  });
}

// What a person can do to the memory

const edit = (action, body, told) => doing(async () => {
  await write(action, { ...body, source: "person" });
  announce(told);
});

const acts = {
  light: lightSlot,
  lightChange: (change, turn) => light(placesOf(page.all, { change, turn })),
  correct: async (slot, value, pin) => {
    const pinned = page.all[now()].pinned.has(slot);
    const body = { values: { [slot]: value }, pin: pin && !pinned };
    if (await edit("corrections", body, `${spoken(slot)} was corrected`)) {
      if (pinned && !pin) await edit("unpin", { slots: [slot] }, `${spoken(slot)} was unpinned`);
      document.querySelector(`[data-key="${CSS.escape(`value:${slot}`)}"]`)?.focus({ preventScroll: true });
    }
  },
  pin: (slot) => edit("pin", { slots: [slot] }, `${spoken(slot)} is pinned`),
  unpin: (slot) => edit("unpin", { slots: [slot] }, `${spoken(slot)} is no longer pinned`),
  confirm: (slot) => edit("confirm", { slots: [slot] }, `${spoken(slot)} was confirmed`),
  reject: (slot) => edit("reject", { slots: [slot] }, `${spoken(slot)} was rejected`),
  /** Takes back what happened to one slot: by undoing the last entry if that did nothing else, or by a correction. */
  takeBack: (slot) => doing(async () => {
    const touched = page.all[now()].touched.get(slot);
    if (!touched) return;
    const last = inForce(page.entries).done.at(-1);
    const alone = last.kind === "schema" || (!last.turn && last.changes.length === 1 && last.changes[0].slot === slot);
    const [action, body] = alone ? ["undo", {}] : ["corrections", { values: { [slot]: touched.before } }];
    await write(action, { ...body, source: "person" });
    announce(`${spoken(slot)} is ${page.all[now()].state.get(slot) ?? "empty"} now`);
  }),
  history: async (slot) => {
    let events = null;
    await doing(async () => {
      const address = `v1/conversations/${page.id}/slots/${encodeURIComponent(slot)}/history`;
      events = tell((await call("GET", address)).events, page.all);
    });
    return events;
  },
};

function undoOrRedo(kind) {
  return doing(async () => {
    if (byId(kind).getAttribute("aria-disabled") === "true") return;
    const entry = await write(kind, { source: "person" });
    page.replay?.follow(entry);
    page.replay?.draw();
    announce(`${kind === "undo" ? "Undone" : "Done again"}: ${entry.turn ? "a turn" : "an edit"}`);
  });
}

// Replaying

async function replay(title, turns, own = null) {
  page.replay?.stop();
  page.own = own;
  if (!(await doing(start))) return;
  page.replay = new Replay(title, turns, { track, stopped: () => { page.replay = null; } });
  await page.replay.step();
  document.querySelector('[data-key="replay:next"]')?.focus({ preventScroll: true });
}

function drawExamples() {
  const paste = () => askForDialogue((turns) => replay("Pasted dialogue", turns, page.own));
  byId("examples").replaceChildren(
    ...page.examples.map(({ title, about, turns }) =>
      example("play", title, about, `${turns.length} turns`, () => replay(title, turns))),
    example("plus", "Paste a dialogue", "Your own, as lines or JSON.", "", paste));
  byId("assistants").replaceChildren(
    example("plus", "Your own assistant", "Say what it should remember, and chat at once.", "", bringSchema),
    ...EXAMPLES.map((item) => example("person", item.title, item.about, "", () => doing(async () => {
      const text = await readExample(item);
      await adopt(await call("POST", "v1/schemas", { schema: text }), { hint: hintIn(text) });
    }))));
}

// Your own assistant

function bringSchema() {
  const current = page.schema.id === page.schemas.get(null)?.id ? null : page.schema.definition;
  askForSchema({ current, live: Boolean(page.id && page.entries.length), chosen: adopt });
}

/** Goes on with a person's schema: `here`, in this conversation, or in a new one. */
async function adopt(view, { here = false, hint = null } = {}) {
  page.schemas.set(view.id, view);
  if (here) {
    await doing(async () => {
      const { refused } = await write("schema", { schema: view.id, source: "person" });
      page.own = view;
      announce(refused.length ? `The schema was changed. Not kept: ${refused.map((item) => spoken(item.slot)).join(", ")}`
        : "The schema was changed. Everything was kept.");
    });
    return;
  }
  page.replay?.stop();
  Object.assign(page, { own: view, hint });
  show(null, []);
  announce(`Your assistant is ready. It remembers ${view.slots.length} slots.`);
  byId("user").focus();
}

function drawWelcome() {
  const own = page.own !== null;
  byId("welcome-title").textContent = own ? "Your assistant is ready" : "Watch a memory form";
  byId("welcome-text").textContent = own
    ? "Type below what a user would say. The memory beside it shows what your assistant would keep of it, how sure it is, and which words each value came from."
    : "Replay a conversation turn by turn, or type one below. The memory beside it shows what the tracker keeps, changes and forgets, how sure it is, and which words each value came from.";
  byId("back-to-service").hidden = !own;
  byId("examples").hidden = own;
  byId("user").placeholder = own ? page.hint ?? "What a user would say" : "Something cheap in the north, please.";
  byId("system").placeholder = own ? "What the assistant said before" : "Which part of town would you like?";
}

function drawModel() {
  if (!page.model) return;
  const { slots, domains } = page.schema;
  const about = page.own ? `your ${domains.join(", ")} · ` : "";
  byId("model").textContent = `${page.model.id} · ${about}${slots.length} ${slots.length === 1 ? "slot" : "slots"}`;
  byId("model").hidden = false;
}

const example = (sign, title, about, size, click) =>
  h("li", {}, h("button", { type: "button", class: "example", click },
    icon(sign), h("strong", {}, title), h("small", {}, size), h("span", {}, about)));

// Copying

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // browsers allow the clipboard only on https and localhost
    const field = h("textarea", { class: "unseen" });
    document.body.append(field);
    field.value = text;
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  announce(`${what} copied`);
}

function copying(id, what, text) {
  byId(id).addEventListener("click", async () => {
    if (now() === 0) return complain(new Problem("There is nothing to copy yet: track a turn first."));
    const label = byId(id).querySelector("span");
    const name = label.textContent;
    await copy(text(), what);
    label.textContent = "Copied";
    setTimeout(() => { label.textContent = name; }, 1200);
  });
}

// The rest of the page

function listen() {
  const user = byId("user");
  let sending = false; // Enter pressed twice is one turn
  byId("composer").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending) return;
    sending = true;
    const turn = { system: byId("system").value.trim(), user: user.value.trim() };
    if (await track(turn)) {
      byId("composer").reset();
      user.focus();
    }
    sending = false;
  });
  user.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("composer").requestSubmit();
  });
  byId("undo").addEventListener("click", () => undoOrRedo("undo"));
  byId("redo").addEventListener("click", () => undoOrRedo("redo"));
  byId("new").addEventListener("click", () => {
    page.replay?.stop();
    byId("problem").hidden = true;
    show(null, []);
    byId("said").scrollTop = 0;
    user.focus({ preventScroll: true });
  });
  byId("assistant").addEventListener("click", bringSchema);
  byId("back-to-service").addEventListener("click", () => {
    page.own = null;
    show(null, []);
    byId("user").focus({ preventScroll: true });
  });
  byId("recent").addEventListener("click", () => askForConversation({
    open: (id) => {
      page.replay?.stop();
      doing(() => read(id));
    },
    erased: (id) => id === page.id && show(null, []),
  }));
  byId("every").addEventListener("change", draw);
  byId("turn").addEventListener("input", (event) => look(Number(event.target.value)));
  byId("to-now").addEventListener("click", () => {
    look(now());
    byId("turn").focus();
  });
  byId("problem").querySelector("button").addEventListener("click", () => { byId("problem").hidden = true; });
  copying("copy-json", "JSON", () => asJson(page.id, page.all, looked(), page.own));
  copying("copy-curl", "curl command", () => asCurl(location.href, page.all, looked(), { key: Boolean(apiKey()), schema: page.own }));
  window.addEventListener("hashchange", () => openAddress());
  listenToTheme();
}

function listenToTheme() {
  const order = ["system", "light", "dark"];
  const root = document.documentElement;
  const name = () => byId("theme").setAttribute("aria-label", `Theme: ${root.dataset.theme ?? "system"}`);
  byId("theme").addEventListener("click", () => {
    const next = order[(order.indexOf(root.dataset.theme ?? "system") + 1) % order.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    localStorage.setItem("somdst-theme", next);
    name();
    announce(`Theme: ${next}`);
  });
  name();
}

async function openAddress() {
  const id = location.hash.slice(1);
  if (!/^[0-9a-f]{32}$/.test(id) || id === page.id) return;
  if (!(await doing(() => read(id)))) show(null, []);
}

/** Reads the schema, the model and the examples; waits for the model to load and asks for a key if one is needed. */
async function connect() {
  for (;;) {
    try {
      const [schema, model, { examples }] = await Promise.all(
        ["v1/schema", "v1/model", "v1/examples"].map((path) => call("GET", path)));
      page.schemas.set(null, schema);
      Object.assign(page, { schema, model, examples });
      byId("problem").hidden = true;
      byId("assistant").hidden = byId("assistants").hidden = !model.any_schema;
      drawExamples();
      return;
    } catch (problem) {
      if (problem.status === 401) await askForKey(apiKey() ? problem.message : "");
      else {
        complain(problem);
        await new Promise((done) => setTimeout(done, 1500));
      }
    }
  }
}

listen();
draw();
await connect();
draw();
await openAddress();
document.body.dataset.ready = "true";
