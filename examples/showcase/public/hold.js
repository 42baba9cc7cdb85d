// Has the server compute for a second, and shows what its watchdog has reported.

import { onPress } from "./lines.js";

export function prepareHold() {
  const result = document.getElementById("hold-result");
  const report = document.getElementById("hold-report");

  onPress(document.getElementById("hold-start"), result, async () => {
    const started = performance.now();
    result.textContent = "The clock above stands still …";
    const response = await fetch("/hold", { method: "POST" });
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    report.textContent = await response.text();
    report.hidden = false;
    result.textContent = `Nothing else was answered for ${((performance.now() - started) / 1000).toFixed(1)} s. The watchdog’s report:`;
  });
}
