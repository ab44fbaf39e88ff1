// One stream of events, resumed after each cut at the last event that was received.
// EventSource cannot send a token, so this reads the body of an ordinary request.

import { headers } from "./api.js";

const SILENCE_MS_MAX = 25_000; // the node sends a comment every ten seconds
const WAIT_MS = [300, 700, 1500, 3000, 6000, 10_000];

export class Stream {
  constructor(path, { onEvent, onOpen, onCut, onRefused }) {
    Object.assign(this, { path, onEvent, onOpen, onCut, onRefused });
    this.lastId = null;
    this.attempts = 0;
    this.isPaused = false;
    this.retry = null;
  }

  async run() {
    for (;;) {
      const reason = await this.once().catch((error) => error.message);
      if (reason === null) continue;
      if (this.isPaused) await new Promise((resolve) => (this.wake = resolve));
      else {
        const wait = WAIT_MS[Math.min(this.attempts, WAIT_MS.length - 1)] * (0.6 + Math.random() * 0.4);
        this.attempts += 1;
        this.onCut(reason, Date.now() + wait);
        await new Promise((resolve) => {
          this.wake = resolve;
          this.retry = setTimeout(resolve, wait);
        });
        clearTimeout(this.retry);
      }
    }
  }

  // A tab that nobody sees gives its connection back.
  pause() {
    this.isPaused = true;
    this.abort?.abort();
  }

  resume() {
    this.isPaused = false;
    this.attempts = 0;
    this.wake?.();
  }

  async once() {
    const abort = (this.abort = new AbortController());
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => abort.abort(), SILENCE_MS_MAX);
    };
    try {
      heard();
      const sent = headers({ Accept: "text/event-stream" });
      if (this.lastId !== null) sent["Last-Event-ID"] = this.lastId;
      const response = await fetch(this.path, { headers: sent, cache: "no-store", signal: abort.signal });
      if (!response.ok) {
        const body = await response.json().catch(() => null);
        if (response.status === 401 || response.status === 403) {
          clearTimeout(silence);
          await this.onRefused(response.status, body?.detail);
          return null;
        }
        return body?.detail ?? `the node answered with status ${response.status}`;
      }
      this.onOpen();
      return await this.read(response.body.getReader(), heard);
    } catch (error) {
      return error.name === "AbortError" ? "nothing came for a while" : "the node cannot be reached";
    } finally {
      clearTimeout(silence);
    }
  }

  async read(reader, heard) {
    const decoder = new TextDecoder();
    let text = "";
    let reason = "the node ended the stream";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return reason;
      heard();
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = parse(block);
        if (!event) continue;
        if (event.name === "closed") reason = event.data.reason;
        else {
          this.attempts = 0;
          this.lastId = event.id;
          this.onEvent(event);
        }
      }
    }
  }
}

function parse(block) {
  const fields = {};
  for (const line of block.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  return fields.data ? { id: fields.id, name: fields.event, data: JSON.parse(fields.data) } : null;
}
