// Shows the log while it is written, by server-sent events, for as long as the panel can be seen; and logs a line of one's own.

import { onPress } from "./lines.js";

const ROWS_KEPT = 220; // the server has 200 for a new reader
const FIELDS = ["time", "service", "severity", "message"];
const element = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en");

export function prepareLog() {
  let events;
  new IntersectionObserver((changes) => {
    events?.close();
    events = changes.at(-1).isIntersecting ? follow() : undefined;
    element("log").dataset.state = events ? "live" : "paused";
  }).observe(element("log"));

  new ResizeObserver(() => toEnd(element("log-lines"))).observe(element("log-lines"));
  onPress(document.querySelector("#log-form button"), element("log-result"), log);
}

// Goes on where it was left.
function follow() {
  const rows = element("log-lines");
  const events = new EventSource(`/log?after=${rows.dataset.seen ?? 0}`);
  events.addEventListener("status", (event) => showFigures(JSON.parse(event.data)));
  events.onmessage = (event) => {
    const atEnd = rows.scrollHeight - rows.scrollTop - rows.clientHeight < 20;
    const missing = Number(event.lastEventId) - Number(rows.dataset.seen ?? event.lastEventId) - 1;
    if (missing > 0) add(rows, "missing", [["message", `${count(missing)} lines before this one are in the log only`]]);
    show(rows, JSON.parse(event.data));
    rows.dataset.seen = event.lastEventId;
    while (rows.childElementCount > ROWS_KEPT) rows.firstElementChild.remove();
    if (atEnd) toEnd(rows); // a reader who has scrolled back is left there
  };
  return events;
}

function toEnd(rows) {
  rows.scrollTop = rows.scrollHeight;
}

function show(rows, entry) {
  const fields = FIELDS.map((field) => [field, visible(entry[field] ?? "")]);
  fields[0][1] = fields[0][1].slice(-8); // without the day
  add(rows, entry.severity, fields);
}

// Text stays text: nothing of it is ever read as HTML.
function add(rows, kind, fields) {
  const row = document.createElement("li");
  row.className = kind;
  for (const [field, text] of fields) {
    const cell = document.createElement("span");
    cell.className = field;
    cell.textContent = text;
    row.append(cell);
  }
  rows.append(row);
}

// A row is one line, as in the log: its control characters are written out.
function visible(text) {
  return text.replace(/\p{Cc}/gu, (char) => ({ "\n": "\\n", "\r": "\\r", "\t": "\\t" })[char] ?? `\\x${char.charCodeAt().toString(16).padStart(2, "0")}`);
}

function showFigures({ messages, rate, logged, acknowledged }) {
  const waiting = logged - acknowledged;
  element("log-status").textContent = `${count(messages)} messages · ${rate.toFixed(1)} a second · ${waiting > 0 ? `${count(waiting)} not on the disk yet` : "all on the disk"}`;
}

async function log() {
  const message = element("log-message");
  const response = await fetch(`/log?${element("log-severity").value}`, { method: "POST", headers: { "content-type": "text/plain" }, body: message.value });
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim());
  element("log-result").textContent = `On the disk after ${(JSON.parse(text).seconds * 1000).toFixed(1)} ms.`;
  message.value = "";
}
