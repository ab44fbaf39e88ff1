// The state of the cluster as this page knows it, and what has happened since it was opened.

import { person } from "./format.js";

const LAG_SAMPLES = 60;
const HAPPENED_MAX = 100;

export const state = {
  offset: null,
  quorum: null,
  brokers: new Map(),
  moves: new Map(),
  pause: null,
  partitions: null,
  lags: new Map(), // by replica, the last lags
  rates: [], // times and high watermarks
  happened: [],
  asOf: null, // since when what is shown may not be so any more; null while it is current
};

export function note(kind, text, at = Date.now()) {
  state.happened.unshift({ kind, text, at });
  state.happened.sort((a, b) => b.at - a.at);
  state.happened.length = Math.min(state.happened.length, HAPPENED_MAX);
}

export function apply(data) {
  const isFirst = state.offset === null;
  state.offset = data.as_of_offset;
  if (data.quorum) takeQuorum(data.quorum, isFirst);
  takeList(data, "brokers", state.brokers, "broker_id", isFirst, brokerChanged);
  takeList(data, "moves", state.moves, "move_id", isFirst, moveChanged);
  if (data.pause) {
    const before = state.pause?.all_paused;
    const now = data.pause.all_paused;
    if (!isFirst && Boolean(before) !== Boolean(now)) note("warn", now ? `All moves are paused by ${person(now.by)}` : "Moves go on");
    state.pause = data.pause;
  }
  if (data.partitions) {
    const before = state.partitions?.without_leader ?? 0;
    const now = data.partitions.without_leader;
    if (now > before) note("bad", `${now} partition${now === 1 ? " has" : "s have"} no leader`);
    else if (before && !now) note("good", "Every partition has a leader again");
    state.partitions = data.partitions;
  }
  if (isFirst) seed();
}

function takeList(data, name, items, id, isFirst, changed) {
  if (!data[name] && !data[`${name}_gone`]) return;
  const gone = new Set(data[`${name}_gone`] ?? []);
  if (data.complete) for (const key of items.keys()) gone.add(key);
  for (const item of data[name] ?? []) {
    gone.delete(item[id]);
    if (!isFirst) changed(items.get(item[id]), item);
    items.set(item[id], item);
  }
  for (const key of gone) {
    items.delete(key);
    if (name === "brokers") note("warn", `Broker ${key} is no longer registered`);
  }
}

function takeQuorum(next, isFirst) {
  const before = state.quorum;
  if (!isFirst && (before.leader_id !== next.leader_id || before.leader_epoch !== next.leader_epoch)) {
    if (next.leader_id >= 0) note("accent", `Controller ${next.leader_id} leads in epoch ${next.leader_epoch}`);
    else note("bad", `No leader is known, epoch ${next.leader_epoch}`, next.leaderless_since_ms ?? Date.now());
  }
  if (before && JSON.stringify(before.target_voters) !== JSON.stringify(next.target_voters)) {
    note("accent", next.target_voters ? `The voters change to ${next.target_voters.join(", ")}` : "The change of voters is over");
  }
  state.quorum = next;
  for (const each of [...next.current_voters, ...next.observers]) {
    const lags = state.lags.get(each.replica_id) ?? [];
    lags.push(each.lag < 0 || each.log_end_offset < 0 ? null : each.lag);
    if (lags.length > LAG_SAMPLES) lags.shift();
    state.lags.set(each.replica_id, lags);
  }
  state.rates.push([Date.now(), next.high_watermark]);
  if (state.rates.length > 20) state.rates.shift();
}

function brokerChanged(before, now) {
  const name = `Broker ${now.broker_id}`;
  if (!before) note("good", `${name} has registered`);
  else if (before.state !== now.state) {
    const words = { alive: ["good", "is alive"], fenced: ["bad", "is fenced"], stopping: ["warn", "is stopping"] };
    const [kind, text] = words[now.state];
    note(kind, `${name} ${text}`);
  }
  if (before && before.cordoned !== now.cordoned) note("warn", `${name} is ${now.cordoned ? "cordoned" : "no longer cordoned"}`);
}

function moveChanged(before, now) {
  if (!before) note("accent", `${title(now)} has begun, by ${person(now.asked_by)}`);
  else if (before.state !== now.state) noteMove(now);
}

function noteMove(move, at) {
  const kinds = { completed: "good", cancelled: "warn", paused: "warn", "paused-by-itself": "bad", running: "accent" };
  const words = { running: "goes on", paused: `is paused by ${person(move.changed_by ?? "somebody")}`, "paused-by-itself": "has paused by itself" };
  note(kinds[move.state] ?? "warn", `${title(move)} ${words[move.state] ?? `is ${move.state}`}`, at);
}

// What the log still tells about the time before the page was opened.
function seed() {
  for (const move of state.moves.values()) {
    note("accent", `${title(move)} has begun, by ${person(move.asked_by)}`, move.asked_at_ms);
    if (move.ended) noteMove(move, move.since_ms);
  }
}

export function title(move) {
  return move.name ? `Move ${move.move_id}, ${move.name},` : `Move ${move.move_id}`;
}

export function commitsPerSecond() {
  if (state.rates.length < 2) return null;
  const [from, low] = state.rates[0];
  const [to, high] = state.rates.at(-1);
  return to > from ? ((high - low) * 1000) / (to - from) : null;
}
