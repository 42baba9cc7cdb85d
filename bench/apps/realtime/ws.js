// node's ws in bench/realtime: see gyre.ru. Arguments: PORT.

const http = require("http");
const { WebSocketServer } = require("ws");

const server = http.createServer((request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(":\n\n");
});
const sockets = new WebSocketServer({ server });

sockets.on("connection", (socket, request) => {
  socket.on("error", () => {});
  socket.on("message", (message, binary) => {
    if (request.url === "/echo") return socket.send(message, { binary });
    for (const one of sockets.clients) one.send(message, { binary });
  });
});

server.listen({ port: Number(process.argv[2]), host: "127.0.0.1", backlog: 4096 });
