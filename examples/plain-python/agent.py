"""An agent without a framework: a loop around a chat API, with the tools of a fleet."""

import asyncio
import os
import sys
from typing import Any

import httpx
from toolfleet import Toolfleet

MODEL = os.environ.get("OPENAI_MODEL", "gpt-4.1-mini")
MODEL_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL_HEADERS = {"authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"}


async def answer(question: str, fleet: Toolfleet, http: httpx.AsyncClient) -> str:
    tools = await fleet.list_tools(format="openai")
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        body = {"model": MODEL, "messages": messages, "tools": tools}
        response = await http.post(f"{MODEL_URL}/chat/completions", json=body, headers=MODEL_HEADERS)
        message = response.raise_for_status().json()["choices"][0]["message"]
        if not message.get("tool_calls"):
            return message["content"]
        # All calls of the message run at once; their results go back to the model as they are.
        messages += [message, *await fleet.batch(message, format="openai")]


async def main() -> None:
    url, key = os.environ["TOOLFLEET_URL"], os.environ["TOOLFLEET_API_KEY"]
    async with Toolfleet(url, key, retries=2) as fleet, httpx.AsyncClient(timeout=120) as http:
        print(await answer(" ".join(sys.argv[1:]), fleet, http))


asyncio.run(main())
