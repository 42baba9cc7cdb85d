// The Ruby behind a part: the methods that matter, coloured; fetched when its panel is opened.

const TOKENS = /(#.*$)|("(?:[^"\\]|\\.)*"|'[^']*')|\b(def|do|end|if|unless|else|case|when|return|yield|while|until|loop|begin|rescue|ensure|class|module|self|nil|true|false|then|in|and|or|not)\b|(:[a-z_]\w*|\b[a-z_]\w*:(?!:))/gm;
const KINDS = ["comment", "string", "keyword", "symbol"];

export function prepareSource() {
  for (const details of document.querySelectorAll("details.source")) {
    details.addEventListener("toggle", () => details.querySelector("pre") || show(details));
  }
}

async function show(details) {
  const path = `/source/${details.dataset.file}`;
  const pre = document.createElement("pre");
  pre.tabIndex = 0; // so that the keyboard can scroll it
  details.append(pre);
  const text = await (await fetch(path)).text();
  const names = details.dataset.methods?.split(" ") ?? [];
  pre.append(...coloured(names.map((name) => method(text, name)).join("\n\n") || text));
  const link = document.createElement("a");
  [link.href, link.textContent] = [path, `All of ${details.dataset.file}`];
  details.append(link);
}

// A method with the comment above it, moved to the left.
function method(text, name) {
  const lines = text.split("\n");
  const at = lines.findIndex((line) => new RegExp(`^\\s*def (self\\.)?${name.replace("?", "\\?")}(?![\\w?!])`).test(line));
  const indent = lines[at].search(/\S/);
  const ends = / = |\) = /.test(lines[at]) ? at : lines.findIndex((line, index) => index > at && line === `${" ".repeat(indent)}end`);
  let from = at;
  while (lines[from - 1].trim().startsWith("#")) from -= 1;
  return lines.slice(from, ends + 1).map((line) => line.slice(indent)).join("\n");
}

function coloured(text) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    parts.push(text.slice(end, match.index));
    const span = document.createElement("span");
    span.className = KINDS[match.slice(1).findIndex((group) => group !== undefined)];
    span.textContent = match[0];
    parts.push(span);
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}
