// Numbers, sizes and times as people read them.

const WHOLE = new Intl.NumberFormat("en-US");

export const whole = (value) => WHOLE.format(value);
export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

export function bytes(value) {
  if (value === null || value === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at && value < 100 ? value.toFixed(1) : WHOLE.format(Math.round(value))} ${units[at]}`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB", { hour12: false });
}

export function moment(ms) {
  const date = new Date(ms);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? clock(ms) : `${date.toISOString().slice(0, 10)} ${clock(ms).slice(0, 5)}`;
}

export const ids = (list) => list.join(", ");
export const person = (principal) => principal.replace(/^User:/, "");
