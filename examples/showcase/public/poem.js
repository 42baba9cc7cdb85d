// Shows each line of the poem when it has come.

import { lines, onPress } from "./lines.js";

export function preparePoem() {
  const text = document.getElementById("poem-text");
  const result = document.getElementById("poem-result");

  const button = document.getElementById("poem-start");
  new IntersectionObserver((seen, observer) => {
    if (!seen.some((each) => each.isIntersecting)) return;
    observer.disconnect();
    button.click();
  }).observe(text);

  onPress(button, result, async () => {
    const started = performance.now();
    const seconds = () => ((performance.now() - started) / 1000).toFixed(1);
    let count = 0;
    text.replaceChildren();
    for await (const line of lines("/poem")) {
      const row = document.createElement("span");
      row.className = "line";
      row.textContent = line || "\u00a0";
      row.dataset.at_s = seconds();
      text.append(row);
      if (line) count += 1;
      result.textContent = count === 1 ? `The first line came after ${Math.round(performance.now() - started)} ms.` : result.textContent;
    }
    result.textContent += ` All ${count}: ${seconds()} s.`;
  });
}
