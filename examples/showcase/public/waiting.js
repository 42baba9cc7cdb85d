// A thousand requests that wait at once, and what they take.

import { lines, megabytes, onPress } from "./lines.js";

export function prepareWaiting() {
  const panel = document.getElementById("waiting");
  const result = document.getElementById("waiting-result");

  onPress(document.getElementById("waiting-start"), result, async () => {
    let before, most;
    for await (const line of lines("/waiting")) {
      const news = JSON.parse(line);
      if (news.event === "begin") before = news.resident_bytes;
      if (news.event === "begin") result.textContent = `Asking ${news.requests.toLocaleString("en")} times …`;
      if (news.event === "waiting" && !(most?.tasks > news.tasks)) result.textContent = held((most = news), before);
      if (news.event === "done") result.textContent += ` All were answered after ${news.seconds.toFixed(1)} s.`;
      panel.dataset.state = news.event;
    }
  });
}

function held(news, before) {
  const memory = before ? ` Memory: ${megabytes(news.resident_bytes)}, before ${megabytes(before)}.` : "";
  return `${news.requests.toLocaleString("en")} requests waited, in ${news.tasks?.toLocaleString("en") ?? "as many"} fibers of one thread.${memory}`;
}
