// Requests to this node, and the bearer token, which only this tab keeps.

const TOKEN = "metaquorum-token";

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  clear: () => sessionStorage.removeItem(TOKEN),
};

export class Problem extends Error {
  constructor(status, body) {
    super(sentence(status, body));
    this.status = status;
    this.body = body;
  }
}

// The detail of a problem; of several refused partitions, the first reasons.
function sentence(status, body) {
  const errors = body?.errors ?? [];
  if (errors.length > 1) {
    const reasons = errors.slice(0, 3).map((each) => `${each.topic}-${each.partition ?? "*"}: ${each.message ?? each.kafka_error}`);
    return `${body.refused ?? errors.length} partitions are refused. ${reasons.join("; ")}${errors.length > 3 ? "; ..." : ""}`;
  }
  const detail = body?.detail ?? `The node answered with status ${status}`;
  // Not the name of a topic, which may begin the sentence too.
  return /^[a-z]+ /.test(detail) ? detail.charAt(0).toUpperCase() + detail.slice(1) : detail;
}

export function headers(more = {}) {
  const secret = token.get();
  return secret ? { ...more, Authorization: `Bearer ${secret}` } : more;
}

export function newKey() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (each) => each.toString(16).padStart(2, "0")).join("");
}

export async function ask(method, path, body, key) {
  const sent = headers({ Accept: "application/json" });
  if (body !== undefined) sent["Content-Type"] = "application/json";
  if (key) sent["Idempotency-Key"] = key;
  let response;
  try {
    response = await fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  } catch {
    const isRead = method === "GET";
    throw new Problem(0, { detail: `This node did not answer${isRead ? "" : "; whether the change was made is not known"}` });
  }
  const found = await response.json().catch(() => null);
  if (!response.ok) throw new Problem(response.status, found);
  return found;
}
