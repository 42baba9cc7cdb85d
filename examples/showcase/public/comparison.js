// Draws when each shop was asked and when it answered, while it happens. What the server measured has the last word.

import { lines, onPress } from "./lines.js";

const SHOPS = ["Tumtum Trading", "Brillig & Sons", "Borogove"];
const SECONDS_SHOWN = 5; // the width of the drawing

export function prepareComparison() {
  const ways = [...document.querySelectorAll(".way")];
  for (const way of ways) {
    draw(way);
    onPress(way.querySelector("button"), way.querySelector(".result"), () => run(way));
  }
  const verdict = document.getElementById("verdict");
  onPress(document.getElementById("ask-both"), verdict, async () => {
    verdict.textContent = "Asking in both ways …";
    const [slow, fast] = await Promise.all(ways.map(run));
    if (!slow || !fast) verdict.textContent = "";
    if (!slow || !fast) return;
    verdict.textContent = `All at once is ${(slow / fast).toFixed(1)}\u00a0× faster.`;
  });
}

async function run(way) {
  const result = way.querySelector(".result");
  const bars = draw(way);
  result.textContent = "Asking …";
  result.classList.remove("failed");
  way.dataset.state = "asking";
  try {
    await ask(way, bars, result);
    way.dataset.state = "done";
    return Number(way.dataset.seconds);
  } catch (error) {
    result.textContent = error.message;
    result.classList.add("failed");
    way.dataset.state = "failed";
  } finally {
    bars.forEach((bar) => (bar.until ??= 0)); // none grows on after a failure
  }
}

async function ask(way, bars, result) {
  const answers = [];
  const limited = document.getElementById("limit").checked ? "&limited" : "";
  for await (const line of lines(`/comparison?${way.dataset.way}${limited}`)) {
    const news = JSON.parse(line);
    if (news.event === "asked") bars.get(news.shop).start(news.at_s);
    if (news.event === "answered") {
      bars.get(news.shop).finish(news.at_s, news.price);
      answers.push(news);
    }
    if (news.event === "failed") {
      bars.get(news.shop)?.fail(news.at_s);
      throw new Error(news.error);
    }
    if (news.event === "done") {
      const best = answers.reduce((one, other) => (Number(other.price) < Number(one.price) ? other : one));
      bars.get(best.shop).item.classList.add("best");
      result.textContent = `${news.at_s.toFixed(1)} seconds in all. ${best.shop} has the best price: €\u00a0${best.price}.`;
      way.dataset.seconds = news.at_s;
      return;
    }
  }
  throw new Error("the answer ended too early");
}

function draw(way) {
  const bars = new Map(SHOPS.map((shop) => [shop, new Bar(shop)]));
  way.querySelector(".bars").replaceChildren(...[...bars.values()].map((bar) => bar.item));
  return bars;
}

class Bar {
  constructor(shop) {
    this.item = document.createElement("li");
    this.item.innerHTML = '<span class="shop"></span><span class="answer">–</span><span class="track"><span class="bar"></span></span>';
    this.item.querySelector(".shop").textContent = shop;
    this.answer = this.item.querySelector(".answer");
    this.bar = this.item.querySelector(".bar");
  }

  start(at_s) {
    this.from = at_s;
    this.startedAt = performance.now();
    this.item.classList.add("asked");
    this.bar.style.left = `${(100 * at_s) / SECONDS_SHOWN}%`;
    this.grow();
  }

  grow() {
    if (this.until !== undefined) return;
    this.show((performance.now() - this.startedAt) / 1000);
    requestAnimationFrame(() => this.grow());
  }

  finish(at_s, price) {
    this.until = at_s;
    this.item.classList.replace("asked", "answered");
    this.show(at_s - this.from);
    this.answer.textContent = `€\u00a0${price} in ${(at_s - this.from).toFixed(2)} s`;
  }

  fail(at_s) {
    this.until = at_s;
    this.item.classList.replace("asked", "failed");
    this.show(at_s - this.from);
    this.answer.textContent = "no price";
  }

  show(seconds) {
    this.bar.style.width = `${Math.min(100, (100 * (this.from + seconds)) / SECONDS_SHOWN) - (100 * this.from) / SECONDS_SHOWN}%`;
    if (this.until === undefined) this.answer.textContent = `${seconds.toFixed(1)} s`;
  }
}
