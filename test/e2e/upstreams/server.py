"""A server on the official Python package, over streamable HTTP with sessions. Its one argument is its port."""

import sys

import anyio
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("python", version="1.0.0", log_level="WARNING")


@server.tool()
def echo(text: str) -> str:
    """Gives back the text."""
    return text


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    """Looks at nothing."""
    return "nothing"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("It failed.")


@server.tool()
async def slow(ms: int) -> str:
    """Answers late."""
    await anyio.sleep(ms / 1000)
    return str(ms)


server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
