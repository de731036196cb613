#!/usr/bin/env python3
"""A proxy that puts a server far away, and counts round trips.

    bench/far.py PORT MILLISECONDS

listens on a free port, which it prints, and passes everything on to PORT of this machine and back: what goes through arrives
half a round trip later, in order, and at whatever rate it came.
"""

import asyncio
import multiprocessing
import socket
import sys
import time


class Far:
    """The proxy, in a process of its own: whoever measures does not slow it down."""

    def __init__(self, port, round_trip):
        self.to, self.delay = port, round_trip / 2
        # Of the connection that has ended last: how often the client said something after the server had.
        self.counted = multiprocessing.Value("i", 0)

    def listen(self):
        """The port that it listens on from now on."""
        listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.process = multiprocessing.Process(target=self.run, args=(listening,), daemon=True)
        self.process.start()
        port = listening.getsockname()[1]
        listening.close()
        return port

    def turns(self):
        until = time.monotonic() + 5
        while not self.counted.value and time.monotonic() < until:
            time.sleep(0.01)
        return self.counted.value

    def close(self):
        self.process.terminate()
        self.process.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, listening):
        asyncio.run(self.serve(listening))

    async def serve(self, listening):
        server = await asyncio.start_server(self.connection, sock=listening, limit=1 << 20)
        await server.serve_forever()

    async def connection(self, reader, writer):
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self.to, limit=1 << 20)
        state = {"last": "server", "turns": 0}
        await asyncio.gather(self.pipe(reader, to_writer, "client", state), self.pipe(to_reader, writer, "server", state))
        self.counted.value = state["turns"]

    async def pipe(self, reader, writer, who, state):
        # As much as a line of this delay holds at a gigabit a second, and some more.
        queue = asyncio.Queue(256)

        async def late():
            while True:
                at, data = await queue.get()
                if at > (now := time.monotonic()):
                    await asyncio.sleep(at - now)
                if not data:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()

        task = asyncio.create_task(late())
        data = b"-"
        while data and not task.done():
            try:
                data = await reader.read(1 << 18)
            except ConnectionError:
                data = b""
            if data:
                state["turns"] += who == "client" and state["last"] == "server"
                state["last"] = who
            await queue.put((time.monotonic() + self.delay, data))
        await asyncio.gather(task, return_exceptions=True)


if __name__ == "__main__":
    far = Far(int(sys.argv[1]), float(sys.argv[2]) / 1000)
    print(far.listen(), flush=True)
    far.process.join()
