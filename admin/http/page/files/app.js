// The live page of a cluster: one stream of events from this node, and the sections that show it.

import { token } from "./api.js";
import * as brokers from "./brokers.js";
import { byId, button, el, put, setClass, sync } from "./dom.js";
import { clock, duration, moment, plural, whole } from "./format.js";
import * as health from "./health.js";
import * as moves from "./moves.js";
import * as partitions from "./partitions.js";
import * as plan from "./plan.js";
import * as quorum from "./quorum.js";
import { signIn } from "./sign_in.js";
import { apply, commitsPerSecond, note, state } from "./state.js";
import { Stream } from "./stream.js";

const HIDDEN_MS = 20_000; // then a tab that nobody sees gives its connection back
const sections = [quorum, health, moves, brokers, partitions, plan];
let cut = null; // since when, why, and when it is tried again
let wasCut = false;

for (const each of sections) each.build();

const stream = new Stream("/v1/overview", {
  onOpen() {},
  onEvent(event) {
    if (event.name !== "overview") return;
    if (cut) {
      note("good", `In touch with this node again after ${duration(Date.now() - cut.since)}`);
      wasCut = true;
    }
    const isFirst = state.offset === null;
    cut = null;
    apply(event.data);
    schedule();
    if (isFirst || wasCut) {
      wasCut = false;
      plan.list();
      partitions.look();
      health.look();
    }
  },
  onCut(reason, again) {
    if (!cut) note("bad", `Cut off from this node: ${reason}`);
    cut = { since: cut?.since ?? Date.now(), reason, again };
    connection();
    schedule();
  },
  async onRefused(status, detail) {
    await signIn(status, detail);
    stream.attempts = 0;
  },
});

// Without a leader nothing changes in the log, and nobody knows which brokers are alive.
const leaderlessSince = () => state.quorum?.leaderless_since_ms ?? null;

let isDue = false;

// At most one update a frame, however fast events come.
function schedule() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    if (!state.quorum) return;
    state.asOf = leaderlessSince() ?? cut?.since ?? null;
    tiles();
    for (const each of sections) each.update();
    put(byId("cluster"), state.quorum.cluster_id ?? "");
    put(byId("as-of"), `As of offset ${whole(state.offset)}, from this node's own state. ${state.asOf ? `It is as of ${moment(state.asOf)}.` : "Lag and copy progress come from the leader."}`);
    connection();
  });
}

function connection() {
  const pill = byId("connection");
  const banner = byId("banner");
  document.body.classList.toggle("stale", Boolean(cut || leaderlessSince()));
  if (cut) {
    const seconds = Math.max(0, Math.ceil((cut.again - Date.now()) / 1000));
    setClass(pill, "pill bad");
    put(pill, "Cut off");
    setClass(banner, "banner");
    banner.hidden = false;
    put(banner, `Cut off since ${clock(cut.since)}: ${cut.reason}. ${seconds ? `Next attempt in ${seconds} s.` : "Trying again."} What is shown is from before.`);
  } else if (leaderlessSince()) {
    setClass(pill, "pill warn");
    put(pill, "No leader");
    setClass(banner, "banner warn");
    banner.hidden = false;
    put(banner, `No leader is known since ${moment(leaderlessSince())}. Changes wait until a majority has elected one; partitions go on without it. What is shown is from before.`);
  } else {
    setClass(pill, state.quorum ? "pill good" : "pill");
    put(pill, state.quorum ? "Live" : "Connecting");
    banner.hidden = true;
  }
}

function tiles() {
  const found = state.quorum;
  const [kind, left, words] = quorum.tolerance(found);
  const running = [...state.moves.values()].filter((each) => !each.ended);
  const paused = running.filter((each) => each.state !== "running").length;
  const alive = [...state.brokers.values()].filter((each) => each.state === "alive").length;
  const atRisk = partitions.atRisk();
  const rate = commitsPerSecond();
  const items = [
    { id: "leader", label: "Leader", value: found.leader_id < 0 ? "none" : `Controller ${found.leader_id}`, note: `epoch ${whole(found.leader_epoch)}`, kind: found.leader_id < 0 ? "bad" : "good" },
    { id: "watermark", label: "High watermark", value: whole(found.high_watermark), note: rate === null ? "" : `${rate < 10 ? rate.toFixed(1) : whole(Math.round(rate))} records/s`, kind: "" },
    { id: "tolerance", label: "Controllers that may fail", value: left === null ? "unknown" : String(left), note: words.startsWith("No ") ? words.split(/[.:]/)[0] : `${found.current_voters.length} voters`, kind },
    { id: "moves", label: "Moves", value: String(running.length), note: running.length ? `${plural(state.partitions?.moving ?? 0, "partition")}${paused || state.pause?.all_paused ? `, ${state.pause?.all_paused ? "all" : paused} paused` : ""}` : "nothing is moved", kind: paused || state.pause?.all_paused ? "warn" : "" },
    { id: "brokers", label: "Brokers alive", value: `${alive} of ${state.brokers.size}`, note: alive < state.brokers.size ? `${state.brokers.size - alive} not alive` : "", kind: alive < state.brokers.size ? "bad" : "good" },
    { id: "risk", label: "Partitions at risk", value: whole(atRisk), note: partitions.syncNote(), kind: atRisk ? "bad" : state.partitions?.under_replicated ? "warn" : "good" },
  ];
  // What may have changed since is dated, and nothing of it is shown as good.
  for (const each of items.filter((each) => state.asOf && !["none", "unknown"].includes(each.value))) {
    if (each.kind === "good") each.kind = "";
    each.note = `as of ${moment(state.asOf)}`;
  }
  sync(
    byId("tiles"),
    items,
    (each) => each.id,
    (each) => {
      const parts = { value: el("div", { class: "value" }), note: el("div", { class: "note" }) };
      return { node: el("div", { class: "tile", id: `tile-${each.id}` }, el("div", { class: "label" }, each.label), parts.value, parts.note), parts };
    },
    (row, each) => {
      put(row.parts.value, each.value);
      put(row.parts.note, each.note);
      setClass(row.node, `tile ${each.kind}`);
    },
  );
}

document.addEventListener("looked", schedule);

let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => stream.pause(), HIDDEN_MS);
  else stream.resume();
});
setInterval(() => {
  if (cut) connection();
}, 500);
byId("connection").after(button("Sign out", () => { token.clear(); location.reload(); }, "plain hidden"));
if (token.get()) byId("connection").nextElementSibling.classList.remove("hidden");

stream.run();
