// The dialog that asks for a bearer token.

import { token } from "./api.js";
import { el, put } from "./dom.js";

// A node that asks for a token answers 401; the token stays in this tab.
export function signIn(status, detail) {
  return new Promise((resolve) => {
    const secret = el("input", { type: "password", autocomplete: "off", required: true, size: 40 });
    const reason = el("p", { class: "problem", role: "alert" }, status === 403 ? detail : "");
    reason.hidden = status !== 403 && !token.get();
    if (token.get() && status === 401) put(reason, "This node does not know that token.");
    token.clear();
    const dialog = el(
      "dialog",
      { "aria-label": "Sign in" },
      el(
        "form",
        { method: "dialog" },
        el("h2", {}, "This node asks for a token"),
        el("p", { class: "dim" }, "An operator makes one with: metaquorum http-tokens create. It is kept in this tab only."),
        el("label", { class: "field" }, "Bearer token", secret),
        reason,
        el("div", { class: "end" }, el("button", { type: "submit", class: "primary" }, "Sign in")),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      token.set(secret.value.trim());
      dialog.remove();
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
