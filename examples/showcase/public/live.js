// Makes the frames of the live pages as high as the pages in them. All else is their server's.

export function prepareLive() {
  for (const frame of document.querySelectorAll("iframe")) {
    frame.addEventListener("load", () => fit(frame));
    fit(frame); // may have been loaded already
  }
}

function fit(frame) {
  const page = frame.contentDocument.documentElement;
  const height = () => { frame.style.height = `${Math.ceil(page.getBoundingClientRect().height)}px`; };
  if (page.querySelector("live-view")) new ResizeObserver(height).observe(page);
}
