// Plan a move: choose topics and brokers, see what it would cost, try it, begin it.

import { ask, newKey } from "./api.js";
import { busy, field, lines, toast } from "./dialog.js";
import { button, byId, el, heading, meter, put } from "./dom.js";
import { bytes, ids, plural, whole } from "./format.js";
import { state } from "./state.js";

const PAGE = 50;
const SHOWN = 12;

const topics = el("ul", { class: "choices", tabindex: "0", "aria-label": "Topics" });
const brokers = el("ul", { class: "choices", tabindex: "0", "aria-label": "Brokers" });
const prefix = el("input", { type: "search", placeholder: "Names that begin with", "aria-label": "Topics whose names begin with" });
const chosen = el("span", { class: "dim" });
const racks = el("input", { type: "checkbox", checked: true });
const result = el("div", { class: "result", "aria-live": "polite", hidden: true });
const problem = el("p", { class: "problem", role: "alert", hidden: true });
const wanted = new Set();
const onto = new Set();
const make = button("Make a plan", plan, "primary");
let after = "";
let timer;

export function build() {
  prefix.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => list(""), 250);
  });
  byId("plan").append(
    el("div", { class: "head" }, heading("plan-title", "Plan a move")),
    el("p", { class: "dim" }, "Spread topics evenly over brokers with the fewest copies. Nothing is moved before you begin."),
    el(
      "div",
      { class: "plan-grid" },
      el("div", {}, el("div", { class: "head" }, el("h3", {}, "Topics"), prefix), topics),
      el("div", {}, el("div", { class: "head" }, el("h3", {}, "Onto brokers"), el("label", { class: "check" }, racks, "Spread over racks")), brokers),
    ),
    el("div", { class: "row why" }, make, chosen),
    problem,
    result,
  );
  say();
}

export async function list(from = "") {
  try {
    const query = new URLSearchParams({ prefix: prefix.value, page_size: PAGE, stale: "true", ...(from ? { page_token: from } : {}) });
    const found = await ask("GET", `/v1/topics?${query}`);
    after = found.next_page_token;
    const rows = found.topics.map((each) => choice(wanted, each.name, `${each.name} `, `${plural(each.partitions, "partition")}, ${plural(each.replication_factor, "replica")} each`));
    if (from) topics.lastElementChild?.remove();
    else topics.replaceChildren();
    topics.append(...rows);
    if (after) topics.append(el("li", {}, button(`Show more of ${whole(found.total)}`, () => list(after), "plain")));
    if (!found.total) topics.append(el("li", { class: "dim" }, "No topic begins like this."));
  } catch (error) {
    topics.replaceChildren(el("li", { class: "bad-text" }, error.message));
  }
}

let known = "";

export function update() {
  const all = [...state.brokers.values()].sort((a, b) => a.broker_id - b.broker_id);
  const now = all.map((each) => `${each.broker_id}${each.rack}${each.state}${each.gets_new_replicas}`).join();
  if (now === known) return;
  known = now;
  const ids = new Set(all.map((each) => each.broker_id));
  for (const each of onto) if (!ids.has(each)) onto.delete(each);
  brokers.replaceChildren(
    ...all.map((each) => choice(onto, each.broker_id, `Broker ${each.broker_id} `, [each.rack, each.state !== "alive" ? each.state : null, each.gets_new_replicas ? null : "cordoned"].filter(Boolean).join(", "))),
  );
}

function choice(set, value, text, more) {
  const box = el("input", { type: "checkbox" });
  box.checked = set.has(value);
  box.addEventListener("change", () => {
    if (box.checked) set.add(value);
    else set.delete(value);
    say();
  });
  return el("li", {}, el("label", { class: "check" }, box, el("span", {}, text, el("span", { class: "dim" }, more))));
}

function say() {
  const what = wanted.size ? plural(wanted.size, "topic") : "all topics";
  put(chosen, `for ${what} onto ${onto.size ? plural(onto.size, "broker") : "all brokers that take replicas"}`);
}

function fail(error) {
  problem.hidden = !error;
  if (error) put(problem, error.message);
}

function plan() {
  result.hidden = true;
  const body = { rack_aware: racks.checked };
  if (wanted.size) body.topics = [...wanted];
  if (onto.size) body.brokers = [...onto];
  return run(make, async () => present(await ask("POST", "/v1/reassignments:generate", body)));
}

// Work of a button; its error is shown in this section.
function run(control, work) {
  fail(null);
  return busy(control, () => work().catch(fail));
}

function present(found) {
  result.hidden = false;
  if (!found.partitions_planned) {
    result.replaceChildren(el("p", {}, "Nothing would have to be moved: the replicas are spread evenly already."));
    return;
  }
  const { outcome } = found;
  const size = outcome.bytes_moved === null ? `bytes unknown: ${outcome.bytes_moved_unknown}` : `${bytes(outcome.bytes_moved)} to copy`;
  const before = new Map(found.rollback_plan.partitions.map((each) => [`${each.topic}-${each.partition}`, each.replicas]));
  const changes = found.plan.partitions.slice(0, SHOWN).map((each) => `${each.topic}-${each.partition}: ${ids(before.get(`${each.topic}-${each.partition}`))} → ${ids(each.replicas)}`);
  const name = el("input", { type: "text", maxlength: 255, placeholder: "rebalance" });
  const rate = el("input", { type: "number", min: 0, step: "any", inputmode: "decimal", placeholder: "no limit" });
  const tried = el("p", { class: "why", role: "status" });
  const key = newKey();
  const wish = () => ({
    ...found.plan,
    ...(name.value ? { name: name.value } : {}),
    throttle_bytes_per_s: Math.round((Number(rate.value) || 0) * 1048576),
  });
  const dry = button("Dry run", () =>
    run(dry, async () => {
      const tryOut = await ask("POST", "/v1/reassignments?dry_run=true", wish());
      const steps = Math.max(0, ...tryOut.planned.map((each) => each.steps.length));
      put(tried, `${plural(tryOut.accepted, "partition")} would be accepted and ${whole(tryOut.refused)} refused, in ${steps === 1 ? "one step" : `up to ${steps} steps`} each.${tryOut.errors[0] ? ` First reason: ${tryOut.errors[0].message}` : ""}`);
    }),
  );
  const begin = button(
    "Begin the move",
    () =>
      run(begin, async () => {
        const begun = await ask("POST", "/v1/reassignments", wish(), key);
        toast(begun.move_id ? `Move ${begun.move_id} has begun: ${plural(begun.accepted, "partition")}` : "Nothing had to change");
        result.hidden = true;
        byId("moves").scrollIntoView();
        byId("moves-title").focus({ preventScroll: true });
      }),
    "primary",
  );
  result.replaceChildren(
    el("p", {}, el("strong", {}, `${plural(found.partitions_planned, "partition")} would change`), `: ${plural(outcome.replicas_added, "copy", "copies")}, ${plural(outcome.leaders_moved, "preferred leader")} moved, ${size}.`),
    balance(outcome.brokers),
    lines(changes, found.partitions_planned, "partitions"),
    el("div", { class: "row" }, field("Name", name), field("Throttle, MiB per second to and from each broker", rate), el("span", { class: "buttons" }, dry, begin)),
    tried,
  );
}

// Replicas of each broker before and after, one bar above the other.
function balance(shares) {
  const most = Math.max(1, ...shares.map((each) => Math.max(each.replicas_before, each.replicas_after)));
  const rows = shares.slice(0, 30).flatMap((each) => {
    const before = meter(`Replicas of broker ${each.broker_id} before`);
    const then = meter(`Replicas of broker ${each.broker_id} after`);
    before.node.classList.add("before");
    before.set(each.replicas_before / most);
    then.set(each.replicas_after / most);
    return [el("span", {}, `Broker ${each.broker_id}`), el("div", { class: "pair" }, before.node, then.node), el("span", { class: "dim" }, `${whole(each.replicas_before)} → ${whole(each.replicas_after)} replicas, preferred leader of ${whole(each.leaders_before)} → ${whole(each.leaders_after)}`)];
  });
  if (shares.length > 30) rows.push(el("span", { class: "dim" }, `and ${shares.length - 30} more`));
  return el("div", { class: "balance" }, ...rows);
}
