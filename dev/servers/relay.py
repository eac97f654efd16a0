"""A relay in front of a server of this machine, from which requests arrive later, as over a network.

python -m dev.servers.relay HOST PORT MILLISECONDS

Its first line is its own port. Answers are passed on at once, and a request in several pieces is late once.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

_PIECE = 2**18  # bytes


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Write what is read, each piece so many seconds after it has come."""
    now = asyncio.get_running_loop().time
    pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        is_open = True
        while is_open:
            data = b""  # the end, also of a connection that was reset
            with suppress(ConnectionError):
                data = await reader.read(_PIECE)
            await pieces.put((now() + delay, data))
            is_open = bool(data)

    reading = asyncio.create_task(read())
    with suppress(ConnectionError):
        while (piece := await pieces.get())[1]:
            await asyncio.sleep(piece[0] - now())
            writer.write(piece[1])
            await writer.drain()
    reading.cancel()
    writer.close()


async def _relay(
    host: str, port: int, delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    answers, requests = await asyncio.open_connection(host, port)
    await asyncio.gather(_pass_on(reader, requests, delay), _pass_on(answers, writer, 0))


async def _serve(host: str, port: int, delay: float) -> None:
    server = await asyncio.start_server(partial(_relay, host, port, delay), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextmanager
def relay(host: str, port: int, milliseconds: float) -> Iterator[str]:
    """The address of a relay to a server, which is a process of its own."""
    command = [sys.executable, "-m", __name__, host, str(port), str(milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000))
