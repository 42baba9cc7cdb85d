// Counts the rows of the download while they come, and keeps none of them.

import { residentBytes } from "./figures.js";
import { megabytes, onPress, pieces } from "./lines.js";

const LINE_END = 10;

export function prepareReadings() {
  const progress = document.getElementById("readings-progress");
  const result = document.getElementById("readings-result");

  onPress(document.getElementById("readings-start"), result, async () => {
    const started = performance.now();
    let rows = -1; // the first line is the header
    let bytes = 0;
    const before = residentBytes();
    let most = before;
    result.textContent = "Counting …";
    for await (const piece of pieces("/readings.csv")) {
      bytes += piece.length;
      for (let at = piece.indexOf(LINE_END); at >= 0; at = piece.indexOf(LINE_END, at + 1)) rows += 1;
      progress.value = rows;
      most = Math.max(most, residentBytes());
    }
    const seconds = (performance.now() - started) / 1000;
    result.textContent = `${rows.toLocaleString("en")} rows, ${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(1)} s.`;
    if (before) result.textContent += ` The server’s memory meanwhile: at most ${megabytes(most)}, before ${megabytes(before)}.`;
  });
}
