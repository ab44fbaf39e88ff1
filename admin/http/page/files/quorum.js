// The quorum: its leader, its replicas and their lag, and how many may fail.

import { ask } from "./api.js";
import { confirm, field } from "./dialog.js";
import { button, byId, el, head, heading, put, setClass, svg, sync } from "./dom.js";
import { clock, duration, plural, whole } from "./format.js";
import * as health from "./health.js";
import { state } from "./state.js";

const WIDTH = 120;
const HEIGHT = 24;

const sentence = el("p", {});
const OBSERVERS = 20;

const rows = el("tbody");
const observers = el("tbody");
const observed = el("summary");
const others = el("details", { hidden: true }, observed, table(observers));
const transfer = button("Transfer the lead", offerTransfer);

export function build() {
  byId("quorum").append(
    el("div", { class: "head" }, heading("quorum-title", "Quorum"), el("div", { class: "push" }, transfer)),
    sentence,
    health.list,
    table(rows),
    others,
  );
}

function table(body) {
  const columns = head(["Replica", "Role"], ["Log end", "Lag", "Behind for"]);
  columns.firstChild.append(el("th", { scope: "col" }, "Lag, last samples"));
  return el("table", { class: "cards" }, columns, body);
}

// How many controllers may fail, as the rules of health say, in words: [kind, number or null, sentence].
export function tolerance(quorum) {
  const voters = quorum.current_voters;
  const left = quorum.failure_tolerance;
  if (quorum.leader_id < 0) return ["bad", null, "No leader is known: changes wait until one is elected."];
  if (left === null) return ["warn", null, "The leader has not told yet how far the others are."];
  const behind = voters.filter((each) => !each.reachable);
  const names = behind.map((each) => each.replica_id).join(", ");
  const because = behind.length ? ` Controller${behind.length > 1 ? "s" : ""} ${names} ${behind.length > 1 ? "are" : "is"} out of touch.` : "";
  if (left > 0) return ["good", left, `${left} of ${voters.length} controllers may fail, and changes go on.${because}`];
  return [voters.length > 1 && behind.length ? "bad" : "warn", 0, `No controller may fail now.${because || " The quorum needs every voter."}`];
}

export function update() {
  const quorum = state.quorum;
  const [kind, , words] = tolerance(quorum);
  const waits = quorum.waits_for ? ` A change of the voters waits for ${quorum.waits_for}.` : "";
  const target = quorum.target_voters ? ` The voters are to become ${quorum.target_voters.join(", ")}.` : "";
  const full = quorum.full_disks.length ? ` The disk of ${quorum.full_disks.join(", ")} is full.` : "";
  put(sentence, words + target + waits + full);
  setClass(sentence, `why ${kind === "good" ? "" : `${kind}-text`}`);
  transfer.disabled = quorum.leader_id < 0 || quorum.current_voters.length < 2;
  sync(rows, quorum.current_voters, (each) => each.replica_id, make, show);
  others.hidden = quorum.observers.length === 0;
  const byLag = [...quorum.observers].sort((a, b) => b.lag - a.lag);
  const late = byLag.slice(0, OBSERVERS);
  // One that does not fetch any more, such as an unregistered broker, is gone and not behind.
  const slowest = byLag.find((each) => each.reachable !== false);
  put(observed, `Observers: ${whole(quorum.observers.length)}, the furthest behind by ${slowest ? plural(slowest.lag, "record") : 0}`);
  const shown = others.open ? late.sort((a, b) => a.replica_id - b.replica_id) : [];
  sync(observers, shown, (each) => each.replica_id, make, show);
}

function make(replica) {
  const cells = {
    role: el("span"),
    end: el("td", { class: "num", "data-label": "Log end" }),
    lag: el("td", { class: "num", "data-label": "Lag" }),
    time: el("td", { class: "num", "data-label": "Behind for" }),
  };
  const line = svg("path", {});
  const area = svg("path", { class: "area" });
  const chart = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, area, line);
  const address = replica.endpoints[0] ? `${replica.endpoints[0].host}:${replica.endpoints[0].port}` : "";
  const node = el(
    "tr",
    {},
    el("td", { class: "name" }, el("span", {}, `${replica.replica_id} `, el("span", { class: "dim mono" }, address))),
    el("td", { class: "state" }, cells.role),
    cells.end,
    cells.lag,
    cells.time,
    el("td", { class: "chart", "data-label": "Lately" }, chart),
  );
  return { node, cells, line, area, chart };
}

const BADGES = { leader: "badge accent", follower: "badge", observer: "badge" };

function show(row, replica) {
  const { cells } = row;
  const isKnown = replica.lag >= 0 && replica.log_end_offset >= 0;
  put(cells.role, replica.status);
  setClass(cells.role, BADGES[replica.status] ?? "badge");
  put(cells.end, replica.log_end_offset < 0 ? "unknown" : whole(replica.log_end_offset));
  put(cells.lag, isKnown ? whole(replica.lag) : "unknown");
  const isLate = replica.reachable === false;
  const isLeader = replica.status === "leader";
  put(cells.time, isLeader ? "leads" : replica.lag_time_ms < 0 ? (isKnown ? "not caught up yet" : "unknown") : replica.lag_time_ms < 1000 ? "in touch" : duration(replica.lag_time_ms));
  setClass(cells.time, isLate ? "num bad-text" : isLeader ? "num dim" : "num");
  draw(row, replica);
}

function draw({ line, area, chart }, replica) {
  const lags = state.lags.get(replica.replica_id) ?? [];
  const known = lags.filter((each) => each !== null);
  const top = Math.max(4, ...known);
  const step = WIDTH / Math.max(1, 59);
  const points = lags.map((each, at) => [WIDTH - (lags.length - 1 - at) * step, each === null ? null : HEIGHT - 2 - (each / top) * (HEIGHT - 5)]);
  const path = points.map(([x, y], at) => (y === null ? "" : `${at && points[at - 1][1] !== null ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`)).join("");
  line.setAttribute("d", path);
  const solid = points.filter(([, y]) => y !== null);
  area.setAttribute("d", solid.length ? `M${solid[0][0].toFixed(1)} ${HEIGHT}${solid.map(([x, y]) => `L${x.toFixed(1)} ${y.toFixed(1)}`).join("")}L${WIDTH} ${HEIGHT}Z` : "");
  chart.setAttribute("aria-label", known.length ? `Lag of controller ${replica.replica_id}: at most ${whole(Math.max(...known))} records lately` : "Lag unknown");
}

function offerTransfer() {
  const heirs = state.quorum.current_voters.filter((each) => each.replica_id !== state.quorum.leader_id);
  const to = el("select", {}, el("option", { value: "" }, "the one that has caught up furthest"), ...heirs.map((each) => el("option", { value: each.replica_id }, `controller ${each.replica_id}`)));
  confirm({
    title: `Transfer the lead from controller ${state.quorum.leader_id}`,
    confirmText: "Transfer",
    fields: [el("p", { class: "dim" }, "Changes wait for some milliseconds until the new leader is active."), field("To", to)],
    async perform() {
      const found = await ask("POST", "/v1/quorum/leader:transfer", to.value ? { to: Number(to.value) } : {});
      if (found.led_already) return `Controller ${found.leader_id} leads already`;
      return found.leader_id < 0 ? `The lead was given up at ${clock(Date.now())}; the next leader is not known yet` : `Controller ${found.leader_id} leads, after ${duration(found.duration_ms)}`;
    },
  });
}
