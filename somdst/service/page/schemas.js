// Schemas as people write them: rows of a form, and the text of a file. Pure; whether one is right, the service says.

import { Problem } from "./api.js";

/** A row of the form. `more` has what the form does not show, such as `type`. */
export const emptyRow = (topic = "") => ({ topic, name: "", description: "", values: "", more: {} });

export const isEmpty = (row) => ![row.name, row.description, row.values].some((text) => text.trim());

/** The rows of a schema in the form of a file, and `rest`, what is not about one slot. */
export function toRows({ domains, ...rest }) {
  const rows = Object.entries(domains).flatMap(([topic, slots]) =>
    Object.entries(slots).map(([name, { description = "", values = [], ...more }]) =>
      ({ topic, name, description, values: values.join(values.some((value) => value.includes(",")) ? "; " : ", "), more })));
  return { rows, rest };
}

/** The schema of some rows; those that are empty are left out. */
export function toDefinition(rows, rest = {}) {
  const domains = {};
  rows.forEach((row, index) => {
    if (isEmpty(row)) return;
    const [topic, name, description] = [row.topic, row.name, row.description].map((text) => text.trim());
    if (!name) throw new Problem(`Slot ${index + 1} has no name: write one, such as size.`);
    if (!topic) throw new Problem(`Slot ${index + 1} has no topic: write what it is about, such as pizza.`);
    const values = row.values.split(row.values.includes(";") ? ";" : ",").map((text) => text.trim()).filter(Boolean);
    const slots = (domains[topic] ??= {});
    if (Object.hasOwn(slots, name)) throw new Problem(`Two slots are called ${topic} ${name}: rename one of them.`);
    slots[name] = { ...(description && { description }), ...(values.length && { values }), ...row.more };
  });
  if (!Object.keys(domains).length) throw new Problem("Add a slot: a name is enough, and a description helps.");
  return { domains, ...rest };
}

/** A schema as the text of a YAML file. */
export function toText({ domains, different = [], ...rest }) {
  const lines = ["domains:"];
  for (const [topic, slots] of Object.entries(domains)) {
    lines.push(`  ${word(topic)}:`);
    for (const [name, entry] of Object.entries(slots)) {
      lines.push(`    ${word(name)}:`, ...Object.entries(entry).map(([key, value]) => `      ${key}: ${written(value)}`));
    }
  }
  if (different.length) lines.push("different:", ...different.map((pair) => `  - ${written(pair)}`));
  lines.push(...Object.entries(rest).map(([key, value]) => `${key}: ${written(value)}`));
  return `${lines.join("\n")}\n`;
}

const PLAIN = /^[\p{L}\p{N}](?:[\p{L}\p{N} _'./-]*[\p{L}\p{N}'.])?$/u;

/** Text that YAML would read otherwise is quoted; a JSON string is a YAML string too. */
const word = (text) => (PLAIN.test(text) ? text : JSON.stringify(text));
const written = (value) => (Array.isArray(value) ? `[${value.map(word).join(", ")}]` : word(String(value)));
