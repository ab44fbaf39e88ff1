// What is wrong with the cluster and what mends it, by the rules of health.

import { ask } from "./api.js";
import { el, put, setClass, sync } from "./dom.js";
import { state } from "./state.js";

const POLL_MS = 3_000;
const PAUSE_FACTOR = 20; // an answer that takes long, as of 100,000 partitions that move, is asked for seldom
const PAUSE_MS_MAX = 60_000;

export const list = el("ul", { class: "reasons", "aria-label": "What is wrong, and what mends it", hidden: true });
let reasons = [];
let stalledMoves = new Set();
let isAsking = false;
let notBefore = 0;
let leader = null;

export const isStalled = (move) => stalledMoves.has(move.move_id);

export function build() {
  setInterval(look, POLL_MS);
}

export async function look() {
  if (document.hidden || isAsking || Date.now() < notBefore) return;
  isAsking = true;
  const begun = Date.now();
  try {
    const found = await ask("GET", "/v1/quorum/health");
    reasons = found.reasons;
    stalledMoves = new Set(found.partitions?.stalled_moves);
  } catch (error) {
    reasons = [{ rule: "unknown", severity: "unknown", sentence: `what is wrong is not known: ${error.message}` }];
    stalledMoves = new Set();
  } finally {
    isAsking = false;
    notBefore = Math.min(Date.now() + PAUSE_MS_MAX, Date.now() + PAUSE_FACTOR * (Date.now() - begun));
  }
  document.dispatchEvent(new Event("looked"));
}

export function update() {
  if (leader !== state.quorum.leader_id) {
    leader = state.quorum.leader_id;
    notBefore = 0;
  }
  list.hidden = reasons.length === 0;
  sync(list, reasons, (each) => each.rule, make, show);
}

function make() {
  const parts = { severity: el("span"), sentence: el("span"), command: el("code") };
  return { parts, node: el("li", {}, parts.severity, parts.sentence, parts.command) };
}

const KINDS = { error: "bad", warning: "warn" };

function show({ parts }, each) {
  put(parts.severity, each.severity);
  setClass(parts.severity, `badge ${KINDS[each.severity] ?? ""}`);
  put(parts.sentence, `${each.sentence.charAt(0).toUpperCase()}${each.sentence.slice(1)}`);
  put(parts.command, each.command);
  parts.command.hidden = !each.command;
}
