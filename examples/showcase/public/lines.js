// Reading an answer while it arrives. Used by the poem, the readings and the comparison.

// Gives the bytes of an answer in the pieces in which they came.
export async function* pieces(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`);
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// Gives the lines of an answer, each as soon as it is complete, without its line end.
export async function* lines(path) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of pieces(path)) {
    const complete = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = complete.pop();
    yield* complete;
  }
  if (rest) yield rest;
}

export const megabytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MB`;

// Runs `work` for a click on the button, one at a time. A failure is said in the element `result`.
export function onPress(button, result, work) {
  let busy = false;
  button.addEventListener("click", async (event) => {
    event.preventDefault(); // a form's button shall not load a page
    if (busy) return;
    busy = true;
    result.classList.remove("failed");
    button.setAttribute("aria-disabled", "true"); // unlike `disabled` this keeps the keyboard's focus
    try {
      await work();
    } catch (error) {
      result.textContent = `That did not work: ${error.message}`;
      result.classList.add("failed");
    } finally {
      busy = false;
      button.removeAttribute("aria-disabled");
    }
  });
}
