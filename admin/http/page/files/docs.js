// The HTTP reference: /openapi.json of this node, to be read. What is opened is made when it is opened.

import { ask } from "./api.js";
import { byId, el, head, put } from "./dom.js";
import { plural } from "./format.js";
import { signIn } from "./sign_in.js";

const SCHEMA = "#/components/schemas/";
const schemas = new Map(); // by name, its schema
const search = el("input", { type: "search", placeholder: "Path or words", "aria-label": "Filter the operations by path or words" });
const count = el("p", { class: "dim", role: "status" });
const entries = []; // the details of each operation, and the text that a filter looks at

show(await load());

async function load() {
  for (;;) {
    try {
      return await ask("GET", "/openapi.json");
    } catch (error) {
      if (error.status !== 401 && error.status !== 403) {
        byId("operations").replaceChildren(el("p", { class: "problem", role: "alert" }, error.message));
        throw error;
      }
      await signIn(error.status, error.message);
    }
  }
}

function show({ info, tags, paths, components }) {
  put(byId("version"), info.version);
  for (const [name, schema] of Object.entries(components.schemas)) schemas.set(name, schema);
  const sections = new Map(tags.map(({ name }) => [name, el("section", { id: `tag-${name}`, class: "panel", "aria-label": name }, el("h2", {}, name))]));
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) sections.get(operation.tags[0]).append(entry(path, method, operation));
  }
  const types = el("section", { id: "schemas", class: "panel", "aria-label": "Types" }, el("h2", {}, "Types"), ...[...schemas].map(([name, schema]) => lazy(`type-${name}`, [el("code", {}, name), " ", el("span", { class: "dim" }, said((schema.description ?? "").split("\n")[0]))], () => [type(schema)])));
  search.addEventListener("input", filter);
  byId("contents").append(search, count, el("ul", {}, ...[...sections.keys()].map((name) => el("li", {}, el("a", { href: `#tag-${name}` }, name))), el("li", {}, el("a", { href: "#schemas" }, "Types"))));
  byId("operations").append(el("p", { class: "panel" }, said(info.description)), ...sections.values(), types);
  filter();
  window.addEventListener("hashchange", openTarget);
  openTarget();
}

function entry(path, method, operation) {
  const title = [el("span", { class: `method ${method}` }, method.toUpperCase()), el("code", {}, path), el("span", { class: "dim" }, operation.summary)];
  const node = lazy(operation.operationId, title, () => operationBody(operation));
  entries.push({ node, text: `${method} ${path} ${operation.summary} ${operation.operationId}`.toLowerCase() });
  return node;
}

// Details whose content is made when they are opened first.
function lazy(id, title, content) {
  const node = el("details", { id, class: "entry" }, el("summary", {}, ...title));
  let isMade = false;
  node.addEventListener("toggle", () => {
    if (!node.open || isMade) return;
    isMade = true;
    node.append(el("div", { class: "entry-body" }, ...content()));
  });
  return node;
}

function operationBody({ description, parameters, requestBody, responses, security }) {
  const parts = description.split("\n\n").map((each) => el("p", {}, said(each)));
  if (security && !security.length) parts.push(el("p", {}, "It needs no credential."));
  if (parameters.length) {
    parts.push(el("h3", {}, "Parameters"));
    parts.push(rows(["Name", "In", "Type", "Meaning"], parameters.map((each) => [name(each.name, each.required), each.in, kind(each.schema), said(each.description ?? each.schema.description)])));
  }
  if (requestBody) {
    const [[media, { schema }]] = Object.entries(requestBody.content);
    parts.push(el("h3", {}, `Body (${media}${requestBody.required ? "" : ", may be empty"})`), type(schema));
  }
  parts.push(el("h3", {}, "Responses"));
  parts.push(
    rows(
      ["Status", "Meaning", "Headers", "Body"],
      Object.entries(responses).map(([status, each]) => [
        el("code", {}, status),
        each.description,
        Object.keys(each.headers ?? {}).join(", "),
        el("span", {}, ...between(Object.entries(each.content ?? {}).map(([media, { schema }]) => (schema?.$ref ? kind(schema) : media)), ", ")),
      ]),
    ),
  );
  return parts;
}

// A schema: the table of an object's fields, or one line.
function type(schema) {
  if (!schema.properties) return el("p", {}, kind(schema));
  const required = new Set(schema.required ?? []);
  return rows(["Field", "Type", "Meaning"], Object.entries(schema.properties).map(([field, each]) => [name(field, required.has(field)), kind(each), said(each.description)]));
}

function name(text, isRequired) {
  return el("span", {}, el("code", {}, text), isRequired ? el("span", { class: "dim" }, " required") : null);
}

function kind(schema) {
  return el("span", {}, ...words(schema));
}

function words(schema) {
  if (schema.$ref) {
    const to = schema.$ref.slice(SCHEMA.length);
    return [el("a", { href: `#type-${to}` }, to)];
  }
  if (schema.anyOf) return between(schema.anyOf.map(kind), " or ");
  if (schema.enum) return [schema.enum.map((each) => JSON.stringify(each)).join(", ")];
  if (schema.type === "array") return schema.prefixItems ? ["[", ...between(schema.prefixItems.map(kind), ", "), "]"] : ["list of ", ...words(schema.items ?? { type: "anything" })];
  if (schema.additionalProperties && schema.additionalProperties !== true) return ["object of ", ...words(schema.additionalProperties)];
  const bounds = [
    [" ≥ ", schema.minimum],
    [" > ", schema.exclusiveMinimum],
    [" ≤ ", schema.maximum],
    [", length ≥ ", schema.minLength],
    [", length ≤ ", schema.maxLength],
    [", default ", schema.default === undefined ? undefined : JSON.stringify(schema.default)],
  ];
  return [`${schema.type ?? "anything"}${bounds.map(([word, value]) => (value === undefined ? "" : word + value)).join("")}`];
}

function between(nodes, separator) {
  return nodes.flatMap((each, at) => (at ? [separator, each] : [each]));
}

function rows(columns, lines) {
  const body = lines.map((cells) => el("tr", {}, ...cells.map((cell, at) => el("td", { class: at ? "line" : "name", "data-label": at ? columns[at] : null }, cell))));
  return el("table", { class: "cards" }, head(columns), el("tbody", {}, ...body));
}

// Text with code between backticks.
function said(text) {
  return el("span", {}, ...(text ?? "").split("`").map((each, at) => (at % 2 ? el("code", {}, each) : each)));
}

function filter() {
  const wanted = search.value.trim().toLowerCase().split(/\s+/);
  let shown = 0;
  for (const { node, text } of entries) {
    node.hidden = !wanted.every((each) => text.includes(each));
    if (!node.hidden) shown += 1;
  }
  for (const section of document.querySelectorAll("[id^=tag-]")) section.hidden = !section.querySelector("details:not([hidden])");
  put(count, plural(shown, "operation"));
}

// A link to an operation or a type opens it.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.tagName === "DETAILS") {
    target.open = true;
    target.querySelector("summary").focus();
  }
  target.scrollIntoView();
}
