"""An agent as a graph of LangGraph: one node asks the model, one runs the calls of its message in the fleet."""

import asyncio
import os
import sys
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import tools_condition
from toolfleet import Toolfleet

MODEL = os.environ.get("OPENAI_MODEL", "gpt-4.1-mini")


async def answer(question: str, fleet: Toolfleet) -> str:
    # OPENAI_API_KEY and OPENAI_BASE_URL are read by the class.
    model = ChatOpenAI(model=MODEL).bind_tools(await fleet.list_tools(format="openai"))

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def run_tools(state: MessagesState) -> dict[str, Any]:
        calls = [
            {"id": call["id"], "name": call["name"], "arguments": call["args"]}
            for call in state["messages"][-1].tool_calls  # type: ignore[union-attr]
        ]
        return {"messages": await fleet.batch(calls, format="openai")}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", run_tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    state = await graph.compile().ainvoke({"messages": [("user", question)]})
    return str(state["messages"][-1].content)


async def main() -> None:
    async with Toolfleet(os.environ["TOOLFLEET_URL"], os.environ["TOOLFLEET_API_KEY"], retries=2) as fleet:
        print(await answer(" ".join(sys.argv[1:]), fleet))


asyncio.run(main())
