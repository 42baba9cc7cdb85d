// The clock and the figures: one server-sent event a second. The browser reconnects by itself when the server was away.

const SECONDS_SHOWN = 60;
const memory = []; // the last minute, in bytes
const SILENT_MS = 3000;
const WORDS = { live: "live", stopping: "the server stops", silent: "the server is silent", waiting: "connecting" };
let heardAt;

export const residentBytes = () => memory.at(-1);

const element = (id) => document.getElementById(id);
const count = (number) => (number === undefined ? "–" : number.toLocaleString("en"));

export function listen() {
  const events = new EventSource("/figures");
  events.onerror = () => showLink("waiting");
  events.onmessage = (event) => show(JSON.parse(event.data));
  setInterval(() => {
    if (events.readyState === EventSource.OPEN && performance.now() - heardAt > SILENT_MS) showLink("silent");
  }, 500);
}

function showLink(state) {
  element("link").dataset.state = state;
  element("link").textContent = WORDS[state];
}

function show(figures) {
  heardAt = performance.now();
  showLink(figures.stopping ? "stopping" : "live");
  element("clock").textContent = figures.time.slice(11, 19);
  element("clock").dateTime = figures.time;
  element("requests").textContent = count(figures.requests);
  element("connections").textContent = count(figures.connections);
  element("tasks").textContent = count(figures.tasks);
  element("turns").textContent = count(figures.turns);
  element("server").textContent = [figures.server, figures.backend, `Ruby ${figures.ruby}`, `up for ${duration(figures.uptime_s)}`].filter(Boolean).join(" · ");
  if (figures.resident_bytes) showMemory(figures.resident_bytes);
}

function duration(seconds) {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

// The line starts at zero, so that its ups and downs look as small as they are.
function showMemory(bytes) {
  element("memory").textContent = `${(bytes / 2 ** 20).toFixed(1)} MB`;
  memory.push(bytes);
  if (memory.length > SECONDS_SHOWN) memory.shift();
  const top = Math.max(...memory) * 1.6;
  const points = memory.map((value, index) => `${60 - memory.length + 1 + index},${20 - (20 * value) / top}`);
  element("memory-line").firstElementChild.setAttribute("points", [`${60 - memory.length},${points[0].split(",")[1]}`, ...points].join(" "));
}
