// The page's side of Gyre::Live: sends events of elements with live-* attributes, and changes the
// document into what the server has rendered. One script serves all views of a document, also those
// that come later (Turbo, htmx, nested views), and ends the sockets of views that have gone.
(() => {
  if (window.gyreLive) return window.gyreLive();
  const events = ["click", "change", "input", "submit", "keydown"];
  const STEADY_MS = 10000; // a socket that was open as long connects again at once
  const views = new Map(); // element => its view
  const set = new WeakMap(); // element => { attribute: the server's value when the property was set }
  const template = document.createElement("template");

  const viewOf = (node) => node.parentElement?.closest("live-view");

  class View {
    constructor(element) {
      this.element = element;
      this.state = element.dataset.state;
      this.delay = 250;
      remember(element);
      this.connect();
    }

    connect() {
      const url = new URL(this.element.dataset.at || location.href, location.href);
      url.protocol = url.protocol.replace("http", "ws");
      url.hash = "";
      const socket = this.socket = new WebSocket(url);
      let opened = Infinity;
      socket.onopen = () => {
        opened = performance.now();
        this.lines = [];
        socket.send(JSON.stringify(["", this.state]));
      };
      socket.onmessage = ({ data }) => this.take(...JSON.parse(data));
      socket.onclose = () => {
        if (this.ended) return;
        this.element.setAttribute("live-offline", "");
        if (performance.now() - opened > STEADY_MS) this.delay = 250;
        this.timer = setTimeout(() => this.connect(), this.delay * (1 + Math.random()));
        this.delay = Math.min(this.delay * 2, 10000);
      };
    }

    take(first, dropped, added, token) {
      this.lines.splice(first, dropped, ...added);
      if (token) this.state = this.element.dataset.state = token;
      template.innerHTML = this.lines.join("\n");
      children(this.element, template.content);
      this.element.removeAttribute("live-offline");
      look();
    }

    // An event that comes before the first connection is open waits for it: the page shows what its
    // state says. While the page is offline, events are dropped.
    send(name, value, sent) {
      const { socket } = this, send = () => { socket.send(JSON.stringify([name, value])); sent(); };
      if (socket.readyState === WebSocket.OPEN) send();
      else if (!this.element.hasAttribute("live-offline")) socket.addEventListener("open", send);
    }

    end() {
      this.ended = true;
      clearTimeout(this.timer);
      this.socket.close();
    }
  }

  // Begins new views, and ends those that are not in the document any more.
  const look = () => {
    for (const [element, view] of views) {
      if (element.isConnected) continue;
      view.end();
      views.delete(element);
    }
    for (const element of document.querySelectorAll("live-view")) {
      if (!views.has(element)) views.set(element, new View(element));
    }
  };

  // --- the document becomes the server's ---

  // A view of another path is another element, with a socket of its own.
  const like = (node, next) => node.nodeName === next.nodeName && (node.id || "") === (next.id || "") &&
    (node.localName !== "live-view" || node.dataset.at === next.dataset.at);

  // Playing, loaded or focused content ends if its element is moved.
  const fragile = (node) =>
    node.nodeType === Node.ELEMENT_NODE &&
    (node.contains(document.activeElement) || node.matches("iframe, video, audio") || node.querySelector("iframe, video, audio") !== null);

  // Makes the children of one node those of another, and keeps elements that are alike. An element
  // with an id is alike the one with this id, wherever it stands; others are by name, in order.
  const children = (old, wanted) => {
    const ids = new Set([...wanted.children].map((child) => child.id).filter(Boolean));
    const nexts = [...wanted.childNodes];
    let place = old.firstChild;
    const drop = () => {
      const next = place.nextSibling;
      place.remove();
      place = next;
    };
    nexts.forEach((next, index) => {
      while (place?.id && !ids.has(place.id)) drop();
      const kept = next.id ? [...old.children].find((child) => like(child, next)) : place && found(place, next, nexts, index, ids);
      if (!kept) return old.insertBefore(added(next), place);
      const stays = before(place, kept) && fragile(kept);
      while (stays && place !== kept && !(place.id && ids.has(place.id))) drop();
      if (kept === place) place = place.nextSibling;
      else if (stays) {
        while (place !== kept) [place] = [place.nextSibling, old.appendChild(place)];
        place = kept.nextSibling;
      } else old.insertBefore(kept, place);
      change(kept, next);
    });
    while (place) drop();
  };

  const before = (place, kept) => place !== null && (place.compareDocumentPosition(kept) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;

  // Returns the node that becomes `next`: the one at the place, or a later one if fewer are wanted.
  const found = (place, next, nexts, index, ids) => {
    if (like(place, next) && !(next.nodeType === Node.ELEMENT_NODE && later(place, next))) return place;
    if (like(place, next)) return later(place, next);
    if (place.id && ids.has(place.id)) return null;
    const known = nexts.slice(index).some((other) => other.nodeType === Node.ELEMENT_NODE && like(place, other));
    if (known) return null;
    for (let node = place.nextSibling; node && !node.id; node = node.nextSibling) if (like(node, next)) return node;
    return null;
  };

  // Returns the focused sibling if it is the one that is meant: equal to `next`, unlike the place.
  const later = (place, next) => {
    if (place.isEqualNode(next)) return null;
    for (let node = place.nextElementSibling; node; node = node.nextElementSibling)
      if (like(node, next) && node.contains(document.activeElement) && node.isEqualNode(next)) return node;
    return null;
  };

  const added = (node) => {
    if (node.nodeType === Node.ELEMENT_NODE) remember(node);
    return node;
  };

  const change = (old, wanted) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
      return;
    }
    const area = old.localName === "textarea";
    const nested = old.localName === "live-view";
    for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name) && !(nested && name.startsWith("live-"))) attribute(old, name, null);
    for (const { name, value } of wanted.attributes) if (!(nested && name === "data-state")) attribute(old, name, value);
    if (old.hasAttribute("live-ignore") || nested) return;
    if (!old.isEqualNode(wanted)) children(old, wanted);
    if (area) property(old, "value", old.defaultValue);
  };

  // Attributes whose properties the user changes: a property is set only if the server's value has
  // changed, and a field with focus gets it when it loses the focus.
  const properties = {
    value: (element, value) => (element.value = value ?? ""),
    checked: (element, value) => (element.checked = value !== null),
    selected: (element, value) => (element.selected = value !== null),
    open: (element, value) => element.toggleAttribute("open", value !== null),
  };
  const typed = (element) => element.matches("input:not([type=checkbox], [type=radio], [type=button], [type=submit]), textarea, select");

  const attribute = (element, name, value) => {
    if (name in properties && name !== "open" && element.getAttribute(name) !== value) write(element, name, value);
    if (name in properties) return property(element, name, value);
    if (element.getAttribute(name) !== value) write(element, name, value);
  };

  const write = (element, name, value) => (value === null ? element.removeAttribute(name) : element.setAttribute(name, value));

  const property = (element, name, value) => {
    const known = set.get(element) ?? {};
    if (known[name] === value || (known[name] === undefined && value === null)) return;
    if (element === document.activeElement && typed(element)) return;
    set.set(element, { ...known, [name]: value });
    properties[name](element, value);
  };

  // Records the properties that the server's markup has set.
  const remember = (root) => {
    for (const element of [root, ...root.querySelectorAll("input, textarea, option, details, dialog, button")]) {
      const known = {};
      for (const name of Object.keys(properties)) if (element.hasAttribute(name)) known[name] = element.getAttribute(name);
      if (element.localName === "textarea") known.value = element.defaultValue;
      set.set(element, known);
    }
  };

  document.addEventListener("focusout", ({ target }) => {
    if (!target.closest("live-view") || !typed(target)) return;
    setTimeout(() => {
      if (!target.isConnected || target === document.activeElement) return;
      const value = target.localName === "textarea" ? target.defaultValue : target.getAttribute("value");
      if (target.localName !== "select" && value !== null) property(target, "value", value);
    });
  });

  // --- events ---

  // A name that comes more than once, or ends with [], has all its values.
  const fields = (form, submitter) => {
    const data = new FormData(form, submitter);
    return Object.fromEntries([...new Set(data.keys())].map((name) => {
      const values = data.getAll(name).filter((value) => typeof value === "string");
      return [name, values.length > 1 || name.endsWith("[]") ? values : values[0] ?? null];
    }));
  };

  const valueOf = (element, event) => {
    if (event.type === "keydown") return event.key;
    if (element.localName === "form") return fields(element, event.submitter);
    if (element.type === "checkbox") return element.checked ? element.value : null;
    if (element.type === "select-multiple") return [...element.selectedOptions].map((option) => option.value);
    return element.getAttribute("live-value") ?? element.value ?? null;
  };

  for (const type of events) {
    document.addEventListener(type, (event) => {
      const element = event.target.closest?.(`[live-${type}]`);
      const view = element && views.get(viewOf(element));
      if (!view) return;
      if (type === "submit" || element.localName === "a") event.preventDefault();
      view.send(element.getAttribute(`live-${type}`), valueOf(element, event), () => element.hasAttribute("live-reset") && element.reset());
    });
  }

  window.gyreLive = look;
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
  look();
})();
