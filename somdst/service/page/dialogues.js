// Dialogues as text: reads what a person pastes, and writes a conversation as JSON or as a curl command. Pure.

import { Problem } from "./api.js";

export const MOST_TURNS = 200;
const USER = new Set(["user", "customer", "human", "client", "u"]);
const SYSTEM = new Set(["system", "assistant", "agent", "bot", "wizard", "s"]);
const LINE = /^\s*([a-z]+)\s*:\s*(.*)$/i;

/** The turns `{system, user}` in some text: lines with "user:" and "system:", or JSON. */
export function readDialogue(text) {
  const trimmed = text.trim();
  if (!trimmed) throw new Problem('There is nothing here yet: paste lines such as "user: I need a hotel".');
  const utterances = /^[[{]/.test(trimmed) ? fromJson(trimmed) : fromLines(trimmed);
  const turns = Array.isArray(utterances) ? pair(utterances) : utterances.turns;
  if (!turns.some((turn) => turn.user.trim())) throw new Problem("The user says nothing in this dialogue: add a turn.");
  if (turns.length > MOST_TURNS) {
    throw new Problem(`This dialogue has ${turns.length} turns and at most ${MOST_TURNS} are replayed: paste fewer.`);
  }
  return turns;
}

function fromLines(text) {
  const utterances = [];
  text.split(/\r?\n/).forEach((line, index) => {
    const match = LINE.exec(line);
    const role = match && roleOf(match[1]);
    if (role) utterances.push({ role, text: match[2].trim() });
    else if (utterances.length) utterances.at(-1).text = `${utterances.at(-1).text}\n${line.trim()}`.trim();
    else throw new Problem(`Line ${index + 1} begins with neither "user:" nor "system:": say who speaks.`);
  });
  return utterances;
}

function fromJson(text) {
  const data = parse(text);
  const list = Array.isArray(data) ? data : data.turns ?? data.messages ?? data.log;
  if (!Array.isArray(list) || !list.length) {
    throw new Problem('This JSON has no turns: it should look like {"turns": [{"system": "", "user": "I need a hotel"}]}.');
  }
  if (list.every((item) => typeof item?.user === "string")) {
    return { turns: list.map((item) => ({ system: String(item.system ?? ""), user: item.user })) };
  }
  return list.map((item, index) => {
    const role = roleOf(String(item?.role ?? item?.speaker ?? (index % 2 ? "system" : "user")));
    const said = item?.content ?? item?.text ?? item?.utterance;
    if (!role || typeof said !== "string") {
      throw new Problem(`Entry ${index + 1} of this JSON is no turn: it needs "user" and "system", or "role" and "content".`);
    }
    return { role, text: said };
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return JSON.parse(text.split("\n")[0]); // JSON lines: the first dialogue
    } catch (error) {
      throw new Problem(`This looks like JSON but is not valid: ${error.message}.`);
    }
  }
}

function roleOf(word) {
  const name = word.toLowerCase();
  return USER.has(name) ? "user" : SYSTEM.has(name) ? "system" : null;
}

/** Utterances to turns: what the system said, then the user. */
function pair(utterances) {
  const turns = [];
  let system = "";
  for (const { role, text } of utterances) {
    if (role === "system") system = `${system} ${text}`.trim();
    else {
      turns.push({ system, user: text });
      system = "";
    }
  }
  return turns; // a last word of the system has no turn
}

/** The conversation up to a frame as a line of the project's JSON lines: the state after every turn. `schema` is the
 * conversation's own, if it has one. */
export function asJson(id, all, last, schema = null) {
  const turns = all.slice(1, last + 1).map(({ turn, state }) => ({
    system: turn.system,
    user: turn.user,
    state: Object.fromEntries([...state].sort(([a], [b]) => (a < b ? -1 : 1))),
  }));
  return JSON.stringify({ id, turns, ...(schema && { schema: schema.definition }) });
}

/** A command that tracks the same turns and stores nothing. */
export function asCurl(address, all, last, { key = false, schema = null } = {}) {
  const turns = all.slice(1, last + 1).map(({ turn }) => ({ system: turn.system, user: turn.user }));
  return [
    `curl -s ${quote(new URL("v1/track", address).href)}`,
    key ? '-H "Authorization: Bearer $SOMDST_API_KEY"' : null,
    "-H 'Content-Type: application/json'",
    `-d ${quote(JSON.stringify({ turns, ...(schema && { schema: schema.id }) }))}`,
  ].filter(Boolean).join(" \\\n  ");
}

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
