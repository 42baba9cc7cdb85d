# Talks to a server of test/websocket/foreign.rb by python3-websockets; prints what it found as JSON.
import asyncio, json, ssl, sys
import websockets
from websockets.extensions import permessage_deflate

address = sys.argv[1]
context = None
if address.startswith("wss"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE


def connect(path, **options):
    return websockets.connect(address + path, ssl=context, **{"compression": None, "max_size": 4000000, **options})


async def compressed(path):
    async with connect(path, compression="deflate") as socket:
        await socket.send("abc " * 5000)
        results = [any(isinstance(each, permessage_deflate.PerMessageDeflate) for each in socket.extensions), len(await socket.recv())]
        same = 0
        for number in range(20):
            text = json.dumps({"room": "garden", "number": number, "text": "hello " * 20})
            await socket.send(text)
            same += await socket.recv() == text
        return results + [same]


async def main():
    found = {}
    async with connect("/echo") as socket:
        async def echo(data):
            await socket.send(data)
            return await socket.recv()

        found["echo"] = [await echo("häh"), await echo(""), list(await echo(b"\x00\xff")), len(await echo("x" * 1000000))]
        found["fragments"] = await echo(["one", "two", "three"])
        await (await socket.ping("are you there"))
        found["ping"] = "pong"
    found["deflate"] = await compressed("/deflate")
    found["takeover"] = await compressed("/takeover")
    async with connect("/ping") as socket:
        found["pinged"] = await socket.recv()
    async with connect("/burst") as socket:
        numbers = []
        try:
            while True:
                numbers.append(int((await socket.recv()).split(" ")[0]))
        except websockets.exceptions.ConnectionClosed:
            found["burst"] = [len(numbers), numbers == list(range(len(numbers))), socket.close_code]
    async with connect("/close") as socket:
        await socket.wait_closed()
        found["closed"] = [socket.close_code, socket.close_reason]
    async with connect("/echo", subprotocols=["c", "a", "b"]) as socket:
        found["protocol"] = socket.subprotocol
    try:
        async with connect("/echo", origin="https://evil.test"):
            pass
    except websockets.exceptions.InvalidStatusCode as error:
        found["refused"] = error.status_code
    socket = await connect("/code")
    await socket.close(4001, "done")
    print(json.dumps(found))


asyncio.run(main())
