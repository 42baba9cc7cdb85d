// Draws how many commands a second memcached has answered in each way; the longest bar is the fastest so far.

import { lines, onPress } from "./lines.js";

export function prepareCache() {
  const panel = document.getElementById("cache");
  const result = document.getElementById("cache-result");

  onPress(document.getElementById("cache-start"), result, async () => {
    const rows = new Map();
    panel.dataset.state = "running";
    result.textContent = "Asking …";
    for await (const line of lines("/cache")) {
      const news = JSON.parse(line);
      if (news.event === "begin") {
        news.ways.forEach((way) => rows.set(way, new Row(way)));
        panel.querySelector(".bars").replaceChildren(...[...rows.values()].map((row) => row.item));
      }
      if (news.event === "took") {
        rows.get(news.way).show(news.commands / news.seconds);
        const most = Math.max(...[...rows.values()].map((row) => row.rate));
        rows.forEach((row) => row.scale(most));
      }
      if (news.event === "done") {
        const [slowest, ...others] = [...rows.values()].map((row) => row.rate);
        result.textContent = `At least 12,000 commands and half a second each way. At best ${(Math.max(...others) / slowest).toFixed(0)} times as many a second as one after the other.`;
      }
      if (news.event === "missing") result.textContent = `There is no memcached here. On Debian: ${news.install}`;
      if (news.event === "failed") result.textContent = `That did not work: ${news.message}`;
      panel.dataset.state = news.event;
    }
  });
}

class Row {
  constructor(way) {
    this.rate = 0;
    this.item = document.createElement("li");
    this.item.innerHTML = '<span class="way-name"></span><span class="answer">–</span><span class="track plain"><span class="bar"></span></span>';
    this.item.querySelector(".way-name").textContent = way;
  }

  show(rate) {
    this.rate = rate;
    this.item.querySelector(".answer").textContent = `${Math.round(rate).toLocaleString("en")} a second`;
  }

  scale(most) {
    this.item.querySelector(".bar").style.width = `${(100 * this.rate) / most}%`;
  }
}
