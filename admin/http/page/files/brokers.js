// Brokers: what each holds, and how it is taken out of service.

import { ask } from "./api.js";
import { change, confirm, lines } from "./dialog.js";
import { button, byId, el, head, heading, meter, put, setClass, sync } from "./dom.js";
import { bytes, plural, whole } from "./format.js";
import { state } from "./state.js";

const PAGE = 50;
const POLL_MS = 20_000;

const rows = el("tbody");
const none = el("p", { class: "empty" }, "No broker is registered.");
const filter = el("input", { type: "search", placeholder: "Id or rack", "aria-label": "Filter brokers by id or rack", size: 12 });
const pager = el("div", { class: "pager" });
const stored = new Map(); // by broker, the bytes of its logs, or why they are unknown
let onView = [];
let isAsking = false;
let page = 0;

export function build() {
  filter.addEventListener("input", () => {
    page = 0;
    update();
  });
  byId("brokers").append(
    el("div", { class: "head" }, heading("brokers-title", "Brokers"), el("div", { class: "push" }, filter)),
    none,
    el(
      "table",
      { class: "cards" },
      head(["Broker", "State"], ["Replicas", "In sync", "Leads", "Bytes"], "Actions"),
      rows,
    ),
    pager,
  );
  pager.append(
    button("Back", () => turn(-1)),
    el("span"),
    button("Next", () => turn(1)),
  );
  setInterval(look, POLL_MS);
}

// Brokers are asked for the bytes of their logs: only those on view, and seldom.
async function look() {
  if (!onView.length || document.hidden || isAsking) return;
  isAsking = true;
  try {
    const found = await ask("GET", `/v1/brokers:stored-bytes?ids=${onView.join()}`);
    for (const each of found.brokers) stored.set(each.broker_id, each);
  } catch (error) {
    for (const id of onView) stored.set(id, { stored_bytes: null, unknown: error.message });
  } finally {
    isAsking = false;
  }
  document.dispatchEvent(new Event("looked"));
}

function turn(by) {
  page += by;
  update();
}

export function update() {
  const wanted = filter.value.trim().toLowerCase();
  const all = [...state.brokers.values()].sort((a, b) => a.broker_id - b.broker_id);
  const found = all.filter((each) => !wanted || String(each.broker_id).startsWith(wanted) || (each.rack ?? "").toLowerCase().includes(wanted));
  const pages = Math.max(1, Math.ceil(found.length / PAGE));
  page = Math.min(page, pages - 1);
  none.hidden = all.length > 0;
  filter.hidden = all.length < 8;
  pager.hidden = pages === 1;
  put(pager.children[1], `Page ${page + 1} of ${pages}, ${plural(found.length, "broker")}`);
  pager.children[0].disabled = page === 0;
  pager.children[2].disabled = page === pages - 1;
  const shown = found.slice(page * PAGE, (page + 1) * PAGE);
  onView = shown.map((each) => each.broker_id);
  if (onView.some((each) => !stored.has(each))) look();
  sync(rows, shown, (each) => each.broker_id, make, show);
}

function make(broker) {
  const id = broker.broker_id;
  const row = { broker };
  const cells = { name: el("td", { class: "name" }), badges: el("td", { class: "state" }), replicas: el("td", { class: "num", "data-label": "Replicas" }), sync: el("td", { class: "num", "data-label": "In sync" }), leads: el("td", { class: "num", "data-label": "Leads" }), bytes: el("td", { class: "num", "data-label": "Bytes" }) };
  row.state = el("span");
  row.cordoned = el("span", { class: "badge warn" });
  row.leaving = el("span", { class: "badge warn" }, "to be unregistered");
  row.emptying = el("div", { class: "why" });
  row.bar = meter(`Broker ${id} is being emptied`);
  cells.badges.append(el("span", { class: "buttons" }, row.state, row.cordoned, row.leaving), row.emptying, row.bar.node);
  row.cordon = button("Cordon", () => change(row.cordon, row.broker.cordoned ? "DELETE" : "PUT", `/v1/brokers/${id}/cordon`, { said: row.broker.cordoned ? `Broker ${id} gets new replicas again` : `Broker ${id} gets no new replicas` }));
  row.drain = button("Decommission", () => (drainOf(row.broker) ? recommission(id) : decommission(id)));
  const stop = button("Safe to stop?", () => safeToStop(id, stop));
  Object.assign(row, { cells });
  row.node = el("tr", {}, cells.name, cells.badges, cells.replicas, cells.sync, cells.leads, cells.bytes, el("td", { class: "actions" }, el("span", { class: "buttons" }, stop, row.cordon, row.drain)));
  return row;
}

const STATES = { alive: "good", stopping: "warn", fenced: "bad" };

// The move that empties a broker has its id in its name, which the controller gives.
function drainOf(broker) {
  const name = new RegExp(`^decommission of brokers? (.*\\b)?${broker.broker_id}\\b`);
  return [...state.moves.values()].find((each) => !each.ended && each.kind === "drain" && name.test(each.name ?? "")) ?? null;
}

// The operator's cordon, and the log directories that the broker's own setting cordons.
function cordonsOf(broker) {
  const dirs = broker.log_dirs.filter((each) => each.cordoned).length;
  return [broker.cordoned ? "cordoned" : null, dirs ? `${dirs} of ${broker.log_dirs.length} log dirs cordoned` : null].filter(Boolean).join(", ");
}

function show(row, broker) {
  row.broker = broker;
  const { cells } = row;
  put(cells.name, [broker.broker_id, broker.rack, broker.implementation].filter((each) => each !== null).join(" · "));
  put(row.state, broker.state);
  setClass(row.state, `badge ${STATES[broker.state]}`);
  const cordons = cordonsOf(broker);
  row.cordoned.hidden = !cordons;
  put(row.cordoned, cordons);
  row.leaving.hidden = !broker.to_be_unregistered;
  put(cells.replicas, whole(broker.replicas));
  put(cells.sync, whole(broker.in_sync));
  setClass(cells.sync, broker.in_sync < broker.replicas ? "num warn-text" : "num");
  put(cells.leads, whole(broker.leaders));
  const size = stored.get(broker.broker_id);
  put(cells.bytes, size ? bytes(size.stored_bytes) : "");
  cells.bytes.title = size?.unknown ? `Unknown: ${size.unknown}` : "";
  setClass(cells.bytes, size && size.stored_bytes === null ? "num dim" : "num");
  put(row.cordon, broker.cordoned ? "Uncordon" : "Cordon");
  const drain = drainOf(broker);
  put(row.drain, drain ? "Recommission" : "Decommission");
  row.emptying.hidden = row.bar.node.hidden = !drain;
  if (drain) {
    put(row.emptying, `Being emptied: ${plural(broker.replicas, "replica")} left`);
    row.bar.set(drain.completed / Math.max(1, drain.partitions_total));
  }
}

function decommission(id) {
  const unregister = el("input", { type: "checkbox" });
  confirm({
    title: `Decommission broker ${id}`,
    confirmText: "Begin to empty it",
    danger: true,
    fields: [el("label", { class: "check" }, unregister, "Unregister it once it is empty and stopped")],
    async preview() {
      const found = await ask("PUT", `/v1/brokers/${id}/decommission?dry_run=true`, {});
      const { outcome } = found;
      const size = outcome.bytes_moved === null ? `The bytes to copy are unknown: ${outcome.bytes_moved_unknown}.` : `${bytes(outcome.bytes_moved)} would be copied.`;
      const shown = outcome.brokers.filter((each) => each.replicas_after !== each.replicas_before).slice(0, 12);
      return [
        el("p", {}, `It is cordoned, and ${plural(found.partitions_planned, "partition")} would be moved away. ${size}`),
        lines(shown.map((each) => `Broker ${each.broker_id}: ${plural(each.replicas_before, "replica")} → ${whole(each.replicas_after)}, leads ${whole(each.leaders_before)} → ${whole(each.leaders_after)}`), shown.length, "brokers"),
      ];
    },
    async perform(key) {
      const found = await ask("PUT", `/v1/brokers/${id}/decommission${unregister.checked ? "?unregister=true" : ""}`, {}, key);
      return found.partitions_held ? `Broker ${id} is being emptied: ${plural(found.partitions_held, "partition")}` : `Broker ${id} is empty`;
    },
  });
}

function recommission(id) {
  confirm({
    title: `Recommission broker ${id}`,
    confirmText: "Recommission",
    async preview() {
      const found = await ask("PUT", `/v1/brokers/${id}/recommission?dry_run=true`, {});
      return [el("p", {}, `The cordon ends, and the moves of ${plural(found.partitions_accepted, "partition")} are cancelled. Replicas that were moved stay where they are.`)];
    },
    async perform(key) {
      await ask("PUT", `/v1/brokers/${id}/recommission`, {}, key);
      return `Broker ${id} is in service again`;
    },
  });
}

async function safeToStop(id, control) {
  const found = await change(control, "GET", `/v1/brokers/${id}/safe-to-stop`);
  if (!found) return;
  const shown = found.hurt.slice(0, 12).map((each) => `${each.topic}-${each.partition}: ${each.harm === "no-leader" ? "no leader would be left" : `${each.in_sync.length} in sync, and min ISR is ${each.min_isr}`}`);
  const dialog = el(
    "dialog",
    { "aria-label": `Broker ${id}` },
    el(
      "form",
      { method: "dialog" },
      el("h2", {}, found.safe ? `Broker ${id} may stop` : `Broker ${id} should not stop now`),
      el("p", {}, found.safe ? `None of the ${plural(found.partitions_looked_at, "partition")} that it is in sync for would suffer.` : `${plural(found.partitions_hurt, "partition")} would suffer:`),
      shown.length ? lines(shown, found.partitions_hurt, "partitions") : null,
      ...found.silent.map((each) => el("p", {}, `Broker ${each} has missed heartbeats and may be dead: it is not counted.`)),
      el("div", { class: "end" }, el("button", { type: "submit" }, "Close")),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
