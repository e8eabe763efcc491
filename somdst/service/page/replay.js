// Replays a dialogue turn by turn: which turn comes next, and the bar that shows it. Does not track turns; see `app.js`.

import { byId, h, icon, iconButton } from "./dom.js";

const PAUSE = 800; // milliseconds between two turns, so that a person can follow

export class Replay {
  /** `track` tracks one turn and resolves to whether that succeeded; `stopped` is called at the end. */
  constructor(title, turns, { track, stopped }) {
    Object.assign(this, { title, turns, track, stopped, next: 0, playing: false, last: Promise.resolve() });
  }

  get over() {
    return this.next >= this.turns.length;
  }

  /** The next turn, after those that are under way. */
  step() {
    this.last = this.last.then(() => this.#step());
    return this.last;
  }

  async #step() {
    if (this.over || this.gone) return false;
    const went = await this.track(this.turns[this.next]);
    if (went) this.next += 1;
    this.draw();
    return went;
  }

  async play() {
    this.playing = true;
    this.draw();
    while (this.playing && (await this.step()) && !this.over) await new Promise((done) => setTimeout(done, PAUSE));
    this.playing = false;
    this.draw();
  }

  /** An undo or redo of a turn of this dialogue moves the place in it. */
  follow({ kind, turn }) {
    const index = kind === "undo" ? this.next - 1 : this.next;
    const mine = this.turns[index];
    if (turn && mine && mine.user === turn.user && mine.system === turn.system) this.next += kind === "undo" ? -1 : 1;
  }

  stop() {
    this.playing = false;
    this.gone = true;
    byId("replay").hidden = true;
    byId("replay").replaceChildren();
    this.stopped();
  }

  draw() {
    if (this.gone) return;
    const focus = document.activeElement?.dataset?.key;
    const bar = byId("replay");
    bar.hidden = false;
    bar.replaceChildren(
      h("p", {}, h("strong", {}, this.title), h("span", { class: "count" }, ` ${this.next} of ${this.turns.length}`),
        h("span", { class: "preview" }, this.over ? "End of the dialogue." : this.turns[this.next].user)),
      h("div", { class: "buttons" },
        !this.over && h("button", { type: "button", class: "primary", "data-key": "replay:next", click: () => this.step() },
          icon("next"), h("span", {}, "Next turn")),
        !this.over && h("button", { type: "button", "data-key": "replay:play",
          click: () => (this.playing ? this.pause() : this.play()) },
        icon(this.playing ? "pause" : "play"), h("span", {}, this.playing ? "Pause" : "Play all")),
        iconButton("cross", "End the replay", () => this.stop(), { "data-key": "replay:stop" })));
    if (focus?.startsWith("replay:")) {
      (bar.querySelector(`[data-key="${focus}"]`) ?? bar.querySelector("button")).focus();
    }
  }

  pause() {
    this.playing = false;
    this.draw();
  }
}
