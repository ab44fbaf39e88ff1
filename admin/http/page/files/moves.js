// Moves: their progress, why they wait, and what can be done with them.

import { ask } from "./api.js";
import { change, confirm, field, isBusy, lines } from "./dialog.js";
import { button, byId, el, head, heading, meter, put, setClass, sync } from "./dom.js";
import { bytes, clock, duration, ids, moment, person, plural, whole } from "./format.js";
import * as health from "./health.js";
import { state } from "./state.js";

const SHOWN = 10;
const PAGE = 20;
const POLL_MS = 2_000;
const BASE = "/v1/reassignments";
const MIB = 1_048_576;

const running = el("div");
const ended = el("tbody");
const none = el("p", { class: "empty" }, "Nothing is being moved.");
const more = el("div", { class: "pager" });
const summary = el("summary", {}, "Ended");
const history = el("details", {}, summary, el("table", { class: "cards" }, head(["Move", "Outcome", "Partitions", "Ended"], [], "Actions"), ended));
const pauseAll = button("Pause all", () => (state.pause?.all_paused ? change(pauseAll, "POST", `${BASE}:resume`, { said: "Moves go on" }) : change(pauseAll, "POST", `${BASE}:pause`, { said: (found) => stopped("All moves are paused", found) })));
const paused = el("span", { class: "badge warn", hidden: true });
const told = new Map(); // by move, what the stream has of the first ones alone: bytes and reasons
const open = new Map(); // by move, its list of partitions on view
let onView = [];
let isLooking = false;
let page = 0;
let endedShown = SHOWN;
const showMore = button("Show more", () => {
  endedShown += SHOWN;
  update();
});

export function build() {
  byId("moves").append(
    el("div", { class: "head" }, heading("moves-title", "Moves"), paused, el("div", { class: "push" }, pauseAll)),
    none,
    running,
    more,
    history,
  );
  history.append(showMore);
  more.append(
    button("Earlier", () => turn(-1)),
    el("span"),
    button("Later", () => turn(1)),
  );
  setInterval(() => {
    look();
    for (const each of open.values()) each.refresh();
  }, POLL_MS);
}

// The stream tells why the first moves wait. For others on view this asks, in one request.
async function look() {
  const asked = onView.filter((each) => !each.example).map((each) => each.move_id);
  if (!asked.length || document.hidden || isLooking) return;
  isLooking = true;
  try {
    const found = await ask("GET", `${BASE}:progress?ids=${asked.join()}`);
    told.clear();
    for (const each of found.moves) told.set(each.move_id, each);
  } catch {
    told.clear(); // No leader answers: nothing is known.
  } finally {
    isLooking = false;
  }
  document.dispatchEvent(new Event("looked"));
}

function turn(by) {
  page += by;
  update();
  look();
}

export function update() {
  const all = [...state.moves.values()].sort((a, b) => a.move_id - b.move_id);
  const now = all.filter((each) => !each.ended);
  const over = all.filter((each) => each.ended).reverse();
  const pages = Math.max(1, Math.ceil(now.length / SHOWN));
  page = Math.min(Math.max(0, page), pages - 1);
  none.hidden = now.length > 0;
  more.hidden = pages === 1;
  put(more.children[1], `Page ${page + 1} of ${pages}`);
  more.children[0].disabled = page === 0;
  more.children[2].disabled = page === pages - 1;
  onView = now.slice(page * SHOWN, (page + 1) * SHOWN);
  sync(running, onView.map((each) => (each.example ? each : { ...each, ...told.get(each.move_id) })), (each) => each.move_id, make, show);
  history.hidden = over.length === 0;
  put(summary, `Ended: ${whole((state.pause?.moves_total ?? all.length) - now.length)}`);
  sync(ended, over.slice(0, endedShown), (each) => each.move_id, makeEnded, showEnded);
  showMore.hidden = over.length <= endedShown;
  const pause = state.pause?.all_paused;
  put(pauseAll, pause ? "Resume all" : "Pause all");
  paused.hidden = !pause;
  if (pause) put(paused, `All paused by ${person(pause.by)} since ${moment(pause.since_ms)}`);
}

// What is said of a pause, with an example of the copies that it does not stop.
function stopped(said, { not_stopped: copies, not_stopped_total: total }) {
  if (!total) return said;
  const { topic, partition, broker_id: broker, reason } = copies[0];
  return `${said}. Copies that go on: ${whole(total)}, as ${topic}-${partition} to broker ${broker}: ${reason}`;
}

function make(move) {
  const path = `${BASE}/${move.move_id}`;
  const bar = meter(`Progress of move ${move.move_id}`);
  const parts = { title: el("h3"), badge: el("span"), kind: el("span", { class: "dim" }), facts: el("dl", { class: "facts" }), why: el("p", { class: "why" }) };
  const row = { bar, parts, move };
  const pause = button("Pause", () =>
    row.move.state === "running"
      ? change(pause, "POST", `${path}:pause`, { said: (found) => stopped(`Move ${move.move_id} is paused`, found) })
      : change(pause, "POST", `${path}:resume`, { said: `Move ${move.move_id} goes on` }),
  );
  const details = el("div", { class: "details", hidden: true });
  const look = button("Partitions", () => {
    details.hidden = !details.hidden;
    look.setAttribute("aria-expanded", String(!details.hidden));
    if (details.hidden) open.delete(move.move_id);
    else {
      open.set(move.move_id, new PartitionList(details, move.move_id));
      open.get(move.move_id).list();
    }
  });
  look.setAttribute("aria-expanded", "false");
  row.pause = pause;
  row.node = el(
    "article",
    { class: "move", "aria-label": `Move ${move.move_id}` },
    el(
      "div",
      { class: "move-head" },
      parts.title,
      parts.badge,
      parts.kind,
      el("div", { class: "push buttons" }, pause, button("Throttle", () => throttle(row.move)), look, button("Cancel", () => cancel(row.move)), button("Roll back", () => rollBack(row.move))),
    ),
    bar.node,
    parts.facts,
    parts.why,
    details,
  );
  row.facts = {};
  for (const name of ["Partitions", "Step", "Left", "Rate", "Time left", "Throttle"]) {
    const value = el("dd");
    const fact = el("div", {}, el("dt", {}, name), value);
    row.facts[name] = { fact, value };
    parts.facts.append(fact);
  }
  return row;
}

const STATES = { running: ["accent", "running"], paused: ["warn", "paused"], "paused-by-itself": ["bad", "paused by itself"] };

function show(row, move) {
  row.move = move;
  const { parts, bar, pause, facts } = row;
  const isRunning = move.state === "running";
  const isStalled = isRunning && health.isStalled(move);
  const [kind, word] = isStalled ? ["bad", "stalled"] : (STATES[move.state] ?? ["", move.state]);
  put(parts.title, move.name ? `${move.move_id} · ${move.name}` : `Move ${move.move_id}`);
  put(parts.badge, word);
  setClass(parts.badge, `badge ${kind}`);
  put(parts.kind, `${move.kind === "drain" ? "empties a broker, " : ""}by ${person(move.asked_by)}, ${moment(move.asked_at_ms)}`);
  put(pause, isRunning ? "Pause" : "Resume");
  pause.disabled = Boolean(state.pause?.all_paused) || isBusy(pause);
  const over = move.completed + move.cancelled + move.superseded + move.gone;
  const total = Math.max(1, move.partitions_total);
  bar.set(over / total);
  fact(facts.Partitions, `${whole(over)} of ${whole(move.partitions_total)} done, ${whole(move.stepping)} under way${move.waiting ? `, ${whole(move.waiting)} waiting` : ""}`);
  fact(facts.Step, move.example && move.example.steps > 1 ? `${move.example.step} of ${move.example.steps}` : null);
  fact(facts.Left, move.bytes_left === null ? null : `${move.bytes_left_is_partial ? "at least " : ""}${bytes(move.bytes_left)}`);
  fact(facts.Rate, move.bytes_per_s === null || move.stops_copying ? null : `${bytes(move.bytes_per_s)}/s`);
  fact(facts["Time left"], move.time_left_ms === null || !isRunning ? null : duration(move.time_left_ms));
  fact(facts.Throttle, move.throttle_bytes_per_s ? `${bytes(move.throttle_bytes_per_s)}/s to and from each broker` : null);
  put(parts.why, why(move, isStalled));
  setClass(parts.why, isStalled ? "why bad-text" : "why");
}

function fact({ fact: node, value }, text) {
  node.hidden = text === null;
  if (text !== null) put(value, text);
}

const REASONS = {
  "no-leader": "A partition has no leader",
  "no-live-target": "The brokers that get replicas are not alive",
  "not-registered": "The brokers that get replicas are not registered",
  "falling-behind": "More is written than is copied",
  "catching-up": "New replicas are catching up",
  "all-target": "It waits until all target replicas are in sync",
  "min-isr": "It waits until enough replicas are in sync",
  turn: "Others go first",
  "limit-partitions": "As many partitions have a step under way as may",
  "limit-leader-movements": "As many leaders move as may",
  "limit-replica-movements": "As many replicas are added as may",
};

const PAUSES = ["all-paused", "move-paused", "hurt"];

function why(move, isStalled) {
  const example = move.example;
  const paused = move.state === "running" ? "" : `Paused${move.changed_by ? ` by ${person(move.changed_by)}` : ""} since ${moment(move.since_ms)}${move.detail ? `: ${move.detail}` : ""}. `;
  if (!example || PAUSES.includes(example.reason)) return paused;
  const stalled = isStalled ? "Some of its partitions go on only after somebody has acted; their list has the reasons. " : "";
  const reason = REASONS[example.reason] ?? (example.reason ? example.reason : "Nothing is known to hold it up");
  const since = example.since_ms ? `, since ${moment(example.since_ms)}` : "";
  const detail = example.detail ? `: ${example.detail}` : "";
  return `${paused}${stalled}${reason}, as for ${example.topic}-${example.partition}${detail}${since}.`;
}

// The partitions left in a move, a page at a time. An open list follows the log, at most every POLL_MS.
class PartitionList {
  constructor(box, moveId) {
    this.moveId = moveId;
    this.tokens = [null]; // of the pages up to this one
    this.offset = null; // what was known when this page was asked for
    this.isAsking = false;
    this.rows = el("tbody");
    this.problem = el("p", { class: "problem", role: "alert", hidden: true });
    this.count = el("span");
    this.back = button("Back", () => {
      this.tokens.pop();
      this.list();
    });
    this.next = button("Next", () => {
      this.tokens.push(this.after);
      this.list();
    });
    const table = el("table", { class: "cards" }, head(["Partition", "State", "Step", "Replicas", "Target"], [], "Reason"), this.rows);
    box.replaceChildren(this.problem, table, el("div", { class: "pager" }, this.count, button("Refresh", () => this.list()), this.back, this.next));
  }

  refresh() {
    const move = state.moves.get(this.moveId);
    if (!move || move.ended || !this.rows.isConnected) open.delete(this.moveId);
    else if (state.offset !== this.offset && !document.hidden && !this.isAsking) this.list();
  }

  async list() {
    const token = this.tokens.at(-1);
    this.isAsking = true;
    this.offset = state.offset;
    try {
      const query = new URLSearchParams({ page_size: PAGE, stale: "true", ...(token ? { page_token: token } : {}) });
      const found = await ask("GET", `${BASE}/${this.moveId}/partitions?${query}`);
      if (token !== this.tokens.at(-1)) return;
      this.after = found.next_page_token;
      sync(this.rows, found.partitions, (each) => `${each.topic}-${each.partition}`, makePartition, showPartition);
      put(this.count, `${plural(found.total, "partition")} left in the move, as of ${clock(Date.now())}`);
      this.back.hidden = this.tokens.length === 1;
      this.next.hidden = !this.after;
      this.problem.hidden = true;
    } catch (error) {
      this.offset = null;
      this.problem.hidden = false;
      put(this.problem, error.message);
    } finally {
      this.isAsking = false;
    }
  }
}

function makePartition(each) {
  const cells = {
    state: el("td", { class: "state" }),
    step: el("td", { class: "line", "data-label": "Step" }),
    replicas: el("td", { class: "mono line", "data-label": "Replicas" }),
    target: el("td", { class: "mono line", "data-label": "Target" }),
    detail: el("td", { class: "full" }),
  };
  return { cells, node: el("tr", {}, el("td", { class: "name" }, `${each.topic}-${each.partition}`), ...Object.values(cells)) };
}

function showPartition({ cells }, each) {
  put(cells.state, each.state.replace("-", " "));
  put(cells.step, `${each.step} of ${each.steps}`);
  put(cells.replicas, ids(each.replicas));
  put(cells.target, ids(each.target_replicas ?? []));
  put(cells.detail, each.detail);
}

function outcome(found, what) {
  const shown = found.partitions.slice(0, 12).map((each) => (each.kafka_error_code ? `${each.topic}-${each.partition ?? "*"}: ${each.message ?? each.kafka_error}` : `${each.topic}-${each.partition} → ${ids(each.replicas)}`));
  const total = found.partitions_accepted + found.partitions_refused;
  const nodes = [el("p", {}, `${plural(found.partitions_accepted, "partition")} ${what}.${found.partitions_refused ? ` ${plural(found.partitions_refused, "partition")} cannot.` : ""}`)];
  if (shown.length) nodes.push(lines(shown, total, "partitions"));
  return nodes;
}

export function cancel(move) {
  const path = `${BASE}/${move.move_id}`;
  confirm({
    title: `Cancel move ${move.move_id}`,
    confirmText: "Cancel the move",
    danger: true,
    async preview() {
      const found = await ask("DELETE", `${path}?dry_run=true`);
      return [el("p", { class: "dim" }, "The steps under way are undone and the rest is dropped. What has been moved stays."), ...outcome(found, "would be left with these replicas")];
    },
    async perform() {
      const found = await ask("DELETE", path);
      return `Move ${move.move_id} is cancelled: ${plural(found.partitions_accepted, "partition")}`;
    },
  });
}

export function rollBack(move) {
  const path = `${BASE}/${move.move_id}:rollback`;
  confirm({
    title: `Roll back move ${move.move_id}`,
    confirmText: "Roll back",
    async preview() {
      const found = await ask("POST", `${path}?dry_run=true`, {});
      const copies = found.bytes_moved === null ? `The bytes to copy are unknown: ${found.bytes_moved_unknown}.` : `${bytes(found.bytes_moved)} would be copied.`;
      return [el("p", { class: "dim" }, "A new move restores the replicas that the partitions had before."), ...outcome(found, "would be moved back"), el("p", {}, copies)];
    },
    async perform(key) {
      const found = await ask("POST", path, {}, key);
      return found.begun_move_id ? `Move ${found.begun_move_id} rolls back move ${move.move_id}` : "There was nothing to roll back";
    },
  });
}

function throttle(move) {
  const now = move.throttle_bytes_per_s;
  const shown = now ? String(Number((now / MIB).toPrecision(4))) : "";
  const input = el("input", { type: "number", min: 0, step: "any", value: shown, inputmode: "decimal", placeholder: "no limit" });
  confirm({
    title: `Throttle move ${move.move_id}`,
    confirmText: "Set",
    fields: [el("p", { class: "dim" }, "The limit holds for each broker and each direction: for the bytes copied to it, and for those copied from it, by all throttled moves together."), field("MiB per second; empty or 0: no limit", input)],
    async perform() {
      // What is shown is rounded: unless it is edited, the rate stays.
      const rate = now && input.value === shown ? now : Math.round((Number(input.value) || 0) * MIB);
      await ask("PATCH", `${BASE}/${move.move_id}`, { throttle_bytes_per_s: rate });
      return rate ? `Move ${move.move_id} copies at most ${bytes(rate)}/s to and from each broker` : `Move ${move.move_id} has no throttle`;
    },
  });
}

function makeEnded(move) {
  const cells = { name: el("td", { class: "name" }), state: el("span"), count: el("td", { "data-label": "Partitions" }), at: el("td", { "data-label": "Ended" }) };
  const row = { cells, move };
  row.node = el("tr", {}, cells.name, el("td", { class: "state" }, cells.state), cells.count, cells.at, el("td", { class: "actions" }, button("Roll back", () => rollBack(row.move))));
  return row;
}

function showEnded(row, move) {
  row.move = move;
  put(row.cells.name, move.name ? `${move.move_id} · ${move.name}` : `Move ${move.move_id}`);
  put(row.cells.state, move.state);
  setClass(row.cells.state, `badge ${move.state === "completed" ? "good" : "warn"}`);
  put(row.cells.count, move.completed === move.partitions_total ? whole(move.completed) : `${whole(move.completed)} of ${whole(move.partitions_total)}`);
  put(row.cells.at, moment(move.since_ms));
}

