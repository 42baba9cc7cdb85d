// The page's side of Gyre::Live: sends events of elements with live-* attributes, and changes the
// document into what the server has rendered.
(() => {
  const view = document.currentScript.previousElementSibling;
  const template = document.createElement("template");
  const events = ["click", "change", "input", "submit", "keydown"];
  let lines = [], state = view.dataset.state, delay = 250, socket;

  const connect = () => {
    const url = new URL(view.dataset.at || location.href, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    url.hash = "";
    socket = new WebSocket(url);
    socket.onopen = () => {
      lines = [];
      socket.send(JSON.stringify(["", state]));
    };
    socket.onmessage = ({ data }) => {
      const [first, dropped, added, token] = JSON.parse(data);
      lines.splice(first, dropped, ...added);
      if (token) state = token;
      template.innerHTML = lines.join("\n");
      children(view, template.content);
      delay = 250;
      view.removeAttribute("live-offline");
    };
    socket.onclose = () => {
      view.setAttribute("live-offline", "");
      setTimeout(connect, delay * (1 + Math.random()));
      delay = Math.min(delay * 2, 10000);
    };
  };

  // Makes the children of one node those of another, and keeps elements that are alike.
  const children = (old, wanted) => {
    let place = old.firstChild;
    for (const next of [...wanted.childNodes]) {
      const kept = next.id ? [...old.children].find((child) => child.id === next.id) : place;
      if (kept && !(kept.id && kept.id !== next.id) && kept.nodeName === next.nodeName) {
        if (kept === place) place = place.nextSibling;
        else old.insertBefore(kept, place);
        change(kept, next);
      } else old.insertBefore(next, place);
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  };

  const change = (old, wanted) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
      return;
    }
    if (old.isEqualNode(wanted) || old.hasAttribute("live-ignore")) return;
    for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name)) attribute(old, name, null);
    for (const { name, value } of wanted.attributes) if (old.getAttribute(name) !== value) attribute(old, name, value);
    children(old, wanted);
  };

  // What a user is typing stays.
  const attribute = (element, name, value) => {
    if (value === null) element.removeAttribute(name);
    else element.setAttribute(name, value);
    if (name === "checked" || name === "selected") element[name] = value !== null;
    if (name === "value" && element !== document.activeElement) element.value = value ?? "";
  };

  const valueOf = (element, event) => {
    if (event.type === "keydown") return event.key;
    if (event.type === "submit") return Object.fromEntries(new FormData(element, event.submitter));
    if (element.type === "checkbox") return element.checked ? element.value : null;
    return element.getAttribute("live-value") ?? element.value ?? null;
  };

  for (const type of events) {
    view.addEventListener(type, (event) => {
      const element = event.target.closest(`[live-${type}]`);
      if (!element) return;
      if (type === "submit" || element.localName === "a") event.preventDefault();
      if (socket.readyState !== WebSocket.OPEN) return;
      socket.send(JSON.stringify([element.getAttribute(`live-${type}`), valueOf(element, event)]));
      if (element.hasAttribute("live-reset")) element.reset();
    });
  }

  connect();
})();
