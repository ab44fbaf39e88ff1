// Small helpers to make and update elements. No text is ever read as HTML.

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (value === true) node.setAttribute(name, "");
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((each) => each !== null && each !== undefined && each !== false));
  return node;
}

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// The heading of a section: it can get the focus when what had it is gone.
export const heading = (id, text) => el("h2", { id, tabindex: -1 }, text);

export const byId = (id) => document.getElementById(id);

// Set text only where it differs, so that nothing is laid out anew for nothing.
export function put(node, text) {
  const next = String(text ?? "");
  if (node.textContent !== next) node.textContent = next;
}

export function setClass(node, name) {
  if (node.className !== name) node.className = name;
}

const kept = new WeakMap();

// Keep one row for each item, in order: rows are made once and then updated.
export function sync(parent, items, keyOf, make, update) {
  let rows = kept.get(parent);
  if (!rows) kept.set(parent, (rows = new Map()));
  const seen = new Set();
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    let row = rows.get(key);
    if (!row) rows.set(key, (row = make(item)));
    if (row.node === at) at = at.nextElementSibling;
    else parent.insertBefore(row.node, at);
    update(row, item);
  }
  for (const [key, row] of rows) {
    if (!seen.has(key)) {
      if (row.node.contains(document.activeElement)) row.node.closest("section")?.querySelector("h2").focus({ preventScroll: true });
      row.node.remove();
      rows.delete(key);
    }
  }
}

export function meter(label) {
  const done = el("i");
  const node = el("div", { class: "meter", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": label }, done);
  return {
    node,
    set(share) {
      const percent = Math.round(share * 1000) / 10;
      node.setAttribute("aria-valuenow", percent);
      // Through the object model: a style attribute is against the page's own policy.
      done.style.width = `${percent}%`;
    },
  };
}

export function button(text, onclick, kind = "") {
  return el("button", { type: "button", class: kind, onclick }, text);
}

// The head of a table: columns of numbers are named in the second list, a last one only to a reader.
export function head(columns, numbers = [], last = null) {
  const cells = columns.map((each) => el("th", { scope: "col" }, each));
  cells.push(...numbers.map((each) => el("th", { scope: "col", class: "num" }, each)));
  if (last) cells.push(el("th", { scope: "col" }, el("span", { class: "unseen" }, last)));
  return el("thead", {}, el("tr", {}, ...cells));
}
