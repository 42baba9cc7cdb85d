// Talks to a server of test/websocket/foreign.rb by node's ws; prints what it found as JSON.
const WebSocket = require("ws");
const address = process.argv[2];
const found = {};
const open = (path, options = {}, protocols = []) => new Promise((resolve, reject) => {
  const socket = new WebSocket(address + path, protocols, { rejectUnauthorized: false, perMessageDeflate: false, ...options });
  const messages = [], waiting = [];
  socket.on("message", (data, binary) => {
    const message = binary ? [...data] : data.toString();
    waiting.length ? waiting.shift()(message) : messages.push(message);
  });
  socket.next = () => new Promise((take) => { messages.length ? take(messages.shift()) : waiting.push(take); });
  socket.ended = new Promise((take) => socket.on("close", (code, reason) => take([code, reason.toString()])));
  socket.on("open", () => resolve(socket));
  socket.on("unexpected-response", (_, response) => { reject(response.statusCode); });
  socket.on("error", reject);
});
const compressed = async (path, options) => {
  const socket = await open(path, { perMessageDeflate: { threshold: 0, ...options } });
  const results = [socket.extensions.startsWith("permessage-deflate")];
  socket.send("abc ".repeat(5000));
  results.push((await socket.next()).length);
  let same = 0;
  for (let n = 0; n < 20; n++) {
    const text = JSON.stringify({ room: "garden", number: n, text: "hello ".repeat(20) });
    socket.send(text);
    if (await socket.next() === text) same++;
  }
  socket.close();
  return [...results, same];
};

(async () => {
  let socket = await open("/echo");
  const echo = async (data) => { socket.send(data); return socket.next(); };
  found.echo = [await echo("häh"), await echo(""), await echo(Buffer.from([0, 255])), (await echo("x".repeat(1000000))).length];
  ["one", "two"].forEach((part) => socket.send(part, { fin: false }));
  found.fragments = await echo("three");
  socket.ping("are you there");
  found.ping = await new Promise((resolve) => socket.on("pong", (data) => resolve(data.toString() === "are you there" && "pong")));
  found.deflate = await compressed("/deflate", {});
  found.takeover = await compressed("/takeover", {});
  found.pinged = await (await open("/ping")).next();
  socket = await open("/burst");
  const numbers = [];
  let end;
  while (!end) {
    const got = await Promise.race([socket.next(), socket.ended]);
    if (Array.isArray(got)) end = got; else numbers.push(parseInt(got, 10));
  }
  found.burst = [numbers.length, numbers.every((number, index) => number === index), end[0]];
  found.closed = await (await open("/close")).ended;
  found.protocol = (await open("/echo", {}, ["c", "a", "b"])).protocol;
  found.refused = await open("/echo", { origin: "https://evil.test" }).catch((status) => status);
  socket = await open("/code");
  socket.close(4001, "done");
  await socket.ended;
  console.log(JSON.stringify(found));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(1); });
