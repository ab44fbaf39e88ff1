// Partitions at risk, and what has happened.

import { ask } from "./api.js";
import { lines } from "./dialog.js";
import { byId, el, heading, put, setClass, sync } from "./dom.js";
import { ids, moment, plural, whole } from "./format.js";
import { state } from "./state.js";

const POLL_MS = 5_000;
const SHOWN = 12;
const HAPPENED = 40;

const counts = el("dl", { class: "counts" });
const verdict = el("p", { class: "why" });
const named = el("div");
const events = el("ol", { class: "timeline" });
const quiet = el("p", { class: "empty" }, "Nothing since the page was opened.");
const values = {};
const MOVING_MAX = 5_000; // of more, those whose step is under way are not looked at
let underMinIsr = 0;

export function build() {
  for (const name of ["Partitions", "Being moved", "Without leader", "Under min ISR", "Under-replicated"]) {
    values[name] = el("dd");
    counts.append(el("div", {}, el("dt", {}, name), values[name]));
  }
  byId("partitions").append(el("div", { class: "head" }, heading("partitions-title", "Partitions")), counts, verdict, named);
  byId("timeline").append(el("div", { class: "head" }, heading("timeline-title", "What happened")), quiet, events);
  setInterval(look, POLL_MS);
}

// Of all brokers; the counts of partitions leave those out whose step is under way.
const notInSync = () => [...state.brokers.values()].reduce((sum, each) => sum + each.replicas - each.in_sync, 0);

export function syncNote() {
  const lacking = state.partitions?.under_replicated;
  if (lacking) return `${whole(lacking)} under-replicated`;
  return notInSync() ? `${plural(notInSync(), "replica")} not in sync yet` : "all replicas in sync";
}

export const atRisk = () => (state.partitions?.without_leader ?? 0) + underMinIsr;

let isLooking = false;

// Names are asked for only where the counts say that there are any.
export async function look() {
  const found = state.partitions;
  if (!found || document.hidden || isLooking) return;
  if (!found.without_leader && !found.under_replicated && (!found.moving || found.moving > MOVING_MAX)) {
    underMinIsr = 0;
    named.replaceChildren();
    return;
  }
  isLooking = true;
  try {
    const risks = await ask("GET", `/v1/partitions?state=without-leader,under-min-isr&page_size=${SHOWN}&stale=true`);
    underMinIsr = Math.max(0, risks.total - found.without_leader);
    const shown = risks.partitions.map((each) => `${each.topic}-${each.partition}: ${each.leader === null ? "no leader" : `${each.in_sync.length} in sync, min ISR is ${each.min_isr}`}; on ${ids(each.replicas)}`);
    named.replaceChildren(...(shown.length ? [lines(shown, risks.total, "partitions")] : []));
    document.dispatchEvent(new Event("looked"));
  } catch {
    // The stream tells that the node is gone.
  } finally {
    isLooking = false;
  }
}

export function update() {
  const found = state.partitions;
  if (found) {
    put(values.Partitions, `${whole(found.partitions)} in ${plural(found.topics, "topic")}`);
    put(values["Being moved"], whole(found.moving));
    mark(values["Without leader"], found.without_leader, "bad-text");
    mark(values["Under min ISR"], underMinIsr, "bad-text");
    mark(values["Under-replicated"], found.under_replicated, "warn-text");
    put(verdict, found.without_leader || underMinIsr ? "" : `${state.asOf ? `As of ${moment(state.asOf)}, every partition had` : "Every partition has"} a leader and enough replicas in sync.`);
    verdict.hidden = Boolean(found.without_leader || underMinIsr);
  }
  quiet.hidden = state.happened.length > 0;
  sync(events, state.happened.slice(0, HAPPENED), (each) => each, make, () => {});
}

function mark(node, count, kind) {
  put(node, whole(count));
  setClass(node, count ? kind : "");
}

function make(each) {
  return { node: el("li", { class: each.kind }, el("time", {}, moment(each.at)), el("span", {}, each.text)) };
}
