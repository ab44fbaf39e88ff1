// Dialogs, messages, and changes that are asked for: each error is shown as its sentence.

import { ask, newKey } from "./api.js";
import { byId, button, el, put } from "./dom.js";

export function toast(text, kind = "good") {
  const node = el("div", { class: `toast ${kind}` }, el("span", {}, text));
  node.append(button("Dismiss", () => node.remove(), "plain"));
  byId("toasts").append(node);
  setTimeout(() => node.remove(), kind === "bad" ? 20_000 : 6_000);
}

const working = new WeakSet();

export const isBusy = (control) => working.has(control);

// Work that a button begins; a second click waits for the first one. A button that is disabled loses the focus, and gets it back.
export async function busy(control, work) {
  const hadFocus = document.activeElement === control;
  working.add(control);
  control.disabled = true;
  try {
    return await work();
  } finally {
    working.delete(control);
    control.disabled = false;
    if (hadFocus && document.activeElement === document.body) control.focus();
  }
}

// Carry out a change.
export function change(control, method, path, { body, key, said } = {}) {
  return busy(control, async () => {
    try {
      const found = await ask(method, path, body, key);
      if (said) toast(typeof said === "function" ? said(found) : said);
      return found;
    } catch (error) {
      toast(error.message, "bad");
      return null;
    }
  });
}

// A dialog with what `preview` finds; it is confirmed, or it is left and nothing happens.
export function confirm({ title, confirmText, danger = false, fields = [], preview, perform }) {
  const content = el("div", { "aria-live": "polite" });
  const problem = el("p", { class: "problem", role: "alert", hidden: true });
  const yes = el("button", { type: "submit", class: danger ? "danger" : "primary" }, confirmText);
  const no = button("Keep as it is", () => dialog.close());
  const form = el("form", { method: "dialog" }, el("h2", {}, title), content, ...fields, problem, el("div", { class: "end" }, no, yes));
  const dialog = el("dialog", { "aria-label": title }, form);
  const opener = document.activeElement;
  const section = opener?.closest("section");
  const key = newKey();
  const fail = (error) => {
    problem.hidden = false;
    put(problem, error.message);
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    yes.disabled = true;
    problem.hidden = true;
    try {
      const said = await perform(key);
      dialog.close();
      if (said) toast(said);
    } catch (error) {
      fail(error);
      yes.disabled = false;
    }
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    // What opened it may be gone by now, as the row of a move that was cancelled, and cannot get the focus back.
    if (!opener?.isConnected) section?.querySelector("h2").focus({ preventScroll: true });
  });
  document.body.append(dialog);
  dialog.showModal();
  if (preview) {
    yes.disabled = true;
    content.append(el("p", { class: "dim" }, "Asking what it would do"));
    preview()
      .then((nodes) => {
        content.replaceChildren(...nodes);
        yes.disabled = false;
      })
      .catch((error) => {
        content.replaceChildren();
        fail(error);
      });
  }
  return dialog;
}

export function field(label, input) {
  return el("label", { class: "field" }, label, input);
}

export function lines(items, total, what) {
  const rows = items.map((each) => el("li", {}, each));
  if (total > items.length) rows.push(el("li", { class: "dim" }, `and ${total - items.length} more ${what}`));
  return el("ul", { class: "list", tabindex: "0", "aria-label": what }, ...rows);
}
