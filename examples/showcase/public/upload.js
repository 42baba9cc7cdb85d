// Sends a file and shows how far it is. XMLHttpRequest, because fetch does not tell how much was sent.

import { onPress } from "./lines.js";

const SAMPLE_BYTES = 20_000_000;

export function prepareUpload() {
  const file = document.getElementById("upload-file");
  const sample = document.getElementById("upload-sample");
  const result = document.getElementById("upload-result");

  onPress(sample, result, () => send(new Blob([new Uint8Array(SAMPLE_BYTES)]), result));
  file.addEventListener("change", async () => {
    if (!file.files[0]) return;
    try {
      await send(file.files[0], result);
    } catch (error) {
      result.textContent = `That did not work: ${error.message}`;
    }
    file.value = ""; // so that the same file can be chosen again
  });
}

function send(blob, result) {
  const progress = document.getElementById("upload-progress");
  const started = performance.now();
  progress.value = 0;
  result.textContent = "Sending …";

  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.upload.onprogress = (event) => {
      progress.value = event.total ? event.loaded / event.total : 1;
      progress.dataset.events = Number(progress.dataset.events || 0) + 1;
    };
    request.onload = () => {
      if (request.status !== 200) return reject(new Error(`${request.status} ${request.responseText.trim()}`));
      const counted = JSON.parse(request.responseText);
      const seconds = ((performance.now() - started) / 1000).toFixed(1);
      progress.value = 1;
      result.replaceChildren(`The server counted ${counted.bytes.toLocaleString("en")} bytes in ${seconds} s. SHA-256: `, checksum(counted.sha256));
      resolve();
    };
    request.onerror = () => reject(new Error("the server ended the connection. A file may be too big: Gyre takes 64 MiB unless told otherwise."));
    request.open("POST", "/upload");
    request.setRequestHeader("content-type", "application/octet-stream");
    request.send(blob);
  });
}

function checksum(text) {
  const code = document.createElement("code");
  code.textContent = text;
  return code;
}
