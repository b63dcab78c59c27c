"""The MCP SDK for Python. `mcp-python.mjs` runs it for each call, with url, key, name and arguments as JSON in GIVEN."""

import asyncio
import json
import os

# recipe
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
# end of recipe


async def main() -> None:
    url, key, name, args = json.loads(os.environ["GIVEN"])

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        print(json.dumps({"progress": progress, "total": total, "message": message}), flush=True)

    # recipe
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=300) as http:
        async with Client(streamable_http_client(url, http_client=http)) as toolfleet:
            tools = (await toolfleet.list_tools()).tools
            result = await toolfleet.call_tool(name, args, progress_callback=on_progress)
    # end of recipe
    shown = result.model_dump(mode="json", by_alias=True)
    print(json.dumps({"tools": [tool.name for tool in tools], "shown": shown}))


asyncio.run(main())
