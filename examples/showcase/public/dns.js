// Asks the server's DNS server for a name, and shows the reply as dig does.

import { onPress } from "./lines.js";

export function prepareDNS() {
  const result = document.getElementById("dns-result");
  const reply = document.getElementById("dns-reply");

  onPress(document.getElementById("dns-start"), result, async () => {
    const name = document.getElementById("dns-name").value;
    const began = performance.now();
    const response = await fetch(`/dns?name=${encodeURIComponent(name)}`);
    reply.textContent = await response.text();
    reply.hidden = false;
    result.textContent = `${Math.round(performance.now() - began)} ms.`;
  });
}
