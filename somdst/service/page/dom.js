// Makes elements from plain values. Text is only ever inserted as text nodes: nothing on the page parses HTML.

/** An element. Attributes that are null or false are left out; functions listen to the event they are named after. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** One of the symbols at the end of index.html. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(use);
  return svg;
}

/** A button that is only an icon; `label` is what it is called. */
export function iconButton(name, label, click, attributes = {}) {
  return h("button", { type: "button", class: "square plain", "aria-label": label, title: label, click, ...attributes },
    icon(name));
}

/** Runs `draw`, and gives the focus back to whatever has the same `data-key` afterwards. */
export function keepingFocus(draw) {
  const key = document.activeElement?.dataset?.key;
  draw();
  if (key && document.activeElement?.dataset?.key !== key) {
    document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
}

/** Says something to a screen reader. */
export function announce(sentence) {
  byId("live").textContent = sentence;
}
