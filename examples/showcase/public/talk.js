// Lines of all visitors, while the panel can be seen: over a WebSocket both ways, and as server-sent events, which come again by themselves.

const ROWS_KEPT = 50;
const me = Math.random().toString(36).slice(2);
const element = (id) => document.getElementById(id);

export function prepareTalk() {
  let socket, events;
  const connect = () => {
    socket = new WebSocket(`${location.origin.replace("http", "ws")}/talk`);
    socket.onopen = () => state("talk-socket", "live");
    socket.onmessage = ({ data }) => add("talk-socket", data);
    socket.onclose = ({ target }) => {
      if (target !== socket) return; // left
      state("talk-socket", "waiting");
      setTimeout(() => target === socket && connect(), 1000);
    };
  };
  const leave = () => {
    const left = socket;
    socket = undefined;
    left?.close();
    events?.close();
    for (const id of ["talk-socket", "talk-events"]) state(id, "paused");
  };

  new IntersectionObserver((changes) => {
    leave();
    if (!changes.at(-1).isIntersecting) return;
    for (const id of ["talk-socket", "talk-events"]) state(id, "waiting");
    connect();
    events = listen();
  }).observe(element("talk"));

  element("talk-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const line = element("talk-line");
    if (!line.value.trim() || socket?.readyState !== WebSocket.OPEN) return;
    socket.send(line.value.trim());
    line.value = "";
  });
  element("talk-cut").addEventListener("click", () => fetch(`/talk?${me}`, { method: "POST" }));
}

function listen() {
  const events = new EventSource(`/talk?${me}`);
  events.onopen = () => state("talk-events", "live");
  events.onerror = () => state("talk-events", "waiting");
  events.onmessage = ({ data }) => add("talk-events", data);
  return events;
}

function state(id, value) {
  const link = element(id).querySelector(".link");
  link.dataset.state = value;
  link.textContent = value === "waiting" ? "connecting" : value;
}

// Text stays text: nothing of it is ever read as HTML.
function add(id, text) {
  const rows = element(id).querySelector("ol");
  const row = document.createElement("li");
  row.textContent = text;
  rows.append(row);
  if (rows.childElementCount > ROWS_KEPT) rows.firstElementChild.remove();
  rows.scrollTop = rows.scrollHeight;
}
