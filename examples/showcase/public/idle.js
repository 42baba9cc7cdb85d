// Shows how many idle connections are open, and what the server's memory has become meanwhile.

import { lines, megabytes, onPress } from "./lines.js";

export function prepareIdle() {
  const panel = document.getElementById("idle");
  const progress = document.getElementById("idle-progress");
  const result = document.getElementById("idle-result");

  onPress(document.getElementById("idle-start"), result, async () => {
    let before;
    panel.dataset.state = "running";
    for await (const line of lines("/idle")) {
      const news = JSON.parse(line);
      if (news.event === "begin") [before, progress.max] = [news.resident_bytes, news.of];
      progress.value = news.connections;
      result.textContent = `${news.connections.toLocaleString("en")} connections open${memory(before, news)}.`;
      panel.dataset.state = news.event;
    }
    progress.value = 0;
  });
}

function memory(before, news) {
  if (!before) return "";
  const each = Math.max(0, news.resident_bytes - before) / Math.max(1, news.connections) / 1024;
  const more = news.connections ? `, ${each.toFixed(1)} KB for each` : "";
  return `; memory ${megabytes(news.resident_bytes)}, before ${megabytes(before)}${more}`;
}
