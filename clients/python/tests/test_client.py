"""The client against scripted responses: what a healthy fleet does not do on demand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest
from pydantic import BaseModel

from toolfleet import Failed, OutputMismatchError, Succeeded, ToolCall, ToolCallError, Toolfleet, ToolModel
from toolfleet.events import EventParser, ServerEvent

pytestmark = pytest.mark.anyio

DONE = {"success": True, "output": {"n": 4}, "text": "4", "error": None, "metadata": {}, "call_id": "c1"}
BUSY = httpx.Response(503, json={"code": "QUEUE_FULL", "error": "busy", "retry_after_ms": 1})
Answer = httpx.Response | Exception


class CountOutput(ToolModel):
    n: int


class Count(ToolCall[CountOutput], tool="count"):
    to: int
    start: int = 0


class Script:
    """Answers requests in turn, and keeps them."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self.answers = list(answers)
        self.seen: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        answer = self.answers.pop(0)
        answer = answer() if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def fleet(self, **options: Any) -> Toolfleet:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return Toolfleet("http://fleet/", "the-key", http=http, **options)

    def body(self, n: int) -> Any:
        return json.loads(self.seen[n].content)


def stream(*events: tuple[str, str, dict[str, Any]]) -> httpx.Response:
    text = "".join(f"id: {i}\nevent: {kind}\ndata: {json.dumps(data)}\n\n" for i, kind, data in events)
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})


async def test_sends_a_call_with_its_fields_toolset_and_key() -> None:
    script = Script(httpx.Response(200, json=DONE))
    async with script.fleet(toolset="support") as fleet:
        result = await fleet.call("calc/ä", {"a": 1}, session_id="s", timeout_ms=100)
    assert isinstance(result, Succeeded) and result.output == {"n": 4}
    [request] = script.seen
    assert str(request.url) == "http://fleet/api/v1/tools/calc%2F%C3%A4/execute?toolset=support"
    assert request.headers["authorization"] == "Bearer the-key"
    assert script.body(0) == {"arguments": {"a": 1}, "session_id": "s", "timeout_ms": 100}


async def test_types_arguments_and_output_of_a_model() -> None:
    script = Script(httpx.Response(200, json=DONE), httpx.Response(200, json={**DONE, "output": {"n": "many"}}))
    fleet = script.fleet()
    result = await fleet.call(Count(to=4))
    assert isinstance(result, Succeeded) and result.output == CountOutput(n=4) and result.text == "4"
    assert script.body(0) == {"arguments": {"to": 4}}  # what was not passed is not sent
    with pytest.raises(OutputMismatchError) as caught:
        await fleet.call(Count(to=4))
    assert caught.value.result.output == {"n": "many"}
    with pytest.raises(ValueError, match="to"):
        Count.model_validate({})


async def test_a_failure_of_the_tool_is_a_result_and_a_refusal_an_error() -> None:
    failed = {**DONE, "success": False, "output": None, "error": "no", "metadata": {"code": "TOOL_ERROR", "retryable": True}}
    refusal = {"error": "slow down", "code": "RATE_LIMITED", "hint": "wait", "details": {"tool": "t"}, "call_id": "c2"}
    script = Script(
        httpx.Response(200, json=failed),
        httpx.Response(429, json=refusal, headers={"retry-after": "2"}),
        httpx.Response(502, text="<html>proxy</html>"),
        httpx.Response(200, text="not json"),
        httpx.ConnectError("no route"),
    )
    fleet = script.fleet()
    result = await fleet.call("t")
    assert isinstance(result, Failed) and (result.error, result.code, result.is_retryable) == ("no", "TOOL_ERROR", True)
    errors: list[ToolCallError] = []
    for _ in range(4):
        with pytest.raises(ToolCallError) as caught:
            await fleet.call("t")
        errors.append(caught.value)
    assert [error.code for error in errors] == ["RATE_LIMITED", "SERVICE_UNAVAILABLE", "BAD_ANSWER", "CONNECTION_FAILED"]
    first = errors[0]
    assert (first.status, first.hint, first.details, first.call_id, first.retry_after) == (429, "wait", {"tool": "t"}, "c2", 2)
    assert "no route" in str(errors[3])


async def test_repeats_a_call_with_the_same_key_and_waits_for_the_first_one() -> None:
    script = Script(BUSY, httpx.ReadError("lost"), httpx.Response(200, json=DONE))
    result = await script.fleet(retries=2).call("t")
    assert result.success is True
    keys = [script.body(n)["idempotency_key"] for n in range(3)]
    assert len(set(keys)) == 1 and len(keys[0]) == 32
    first, *repeated = [request.headers["prefer"] for request in script.seen]
    assert first == "large-integers=digits"
    assert [sent.rsplit("=", 1)[0] for sent in repeated] == ["large-integers=digits, wait"] * 2


@pytest.mark.parametrize(
    ("answers", "retries", "code"),
    [
        ([BUSY, BUSY], 1, "QUEUE_FULL"),
        ([BUSY], 0, "QUEUE_FULL"),
        ([httpx.Response(403, json={"code": "POLICY_DENIED", "error": "no"})], 5, "POLICY_DENIED"),
    ],
)
async def test_gives_up(answers: list[Answer], retries: int, code: str) -> None:
    script = Script(*answers)
    with pytest.raises(ToolCallError) as caught:
        await script.fleet(retries=retries).call("t")
    assert caught.value.code == code and script.answers == []


async def test_repeats_reads_and_nothing_that_has_no_key() -> None:
    script = Script(httpx.ReadError("lost"), httpx.Response(200, json=[]), BUSY)
    fleet = script.fleet(retries=1)
    assert await fleet.list_tools(format="openai") == []
    assert str(script.seen[0].url) == "http://fleet/api/v1/tools?format=openai"
    with pytest.raises(ToolCallError):
        await fleet.cancel("c1")
    assert script.answers == []


async def test_follows_a_call_through_lost_streams() -> None:
    script = Script(
        stream(("1", "accepted", {}), ("2", "progress", {"progress": 1, "total": 2})),
        httpx.Response(200, json={"call_id": "c1", "tool": "t", "status": "claimed"}),
        httpx.ReadError("lost"),
        stream(("3", "done", {"state": "succeeded", "result": DONE})),
    )
    events = [event async for event in script.fleet().follow("c1")]
    assert [(event.id, event.type) for event in events] == [("1", "accepted"), ("2", "progress"), ("3", "done")]
    assert [request.headers.get("last-event-id") for request in script.seen] == [None, None, "2", "2"]


async def test_a_call_without_a_result_is_an_error_and_one_without_an_end_is_cancelled() -> None:
    accepted = httpx.Response(202, json={"call_id": "c1", "status": "accepted"})
    script = Script(accepted, stream(("1", "done", {"state": "outcome_unknown"})))
    with pytest.raises(ToolCallError) as caught:
        await script.fleet().call("t", on_progress=print)
    assert (caught.value.code, caught.value.call_id) == ("OUTCOME_UNKNOWN", "c1")

    class Silent(httpx.AsyncByteStream):
        async def __aiter__(self):  # type: ignore[no-untyped-def]
            await anyio.sleep_forever()
            yield b""

    silent = httpx.Response(200, stream=Silent(), headers={"content-type": "text/event-stream"})
    script = Script(accepted, silent, httpx.Response(200, json={"call_id": "c1", "status": "cancelled"}))
    with pytest.raises(ToolCallError) as caught:
        await script.fleet().call("t", on_progress=print, timeout=0.05)
    assert caught.value.code == "DEADLINE_EXCEEDED" and script.seen[-1].method == "DELETE"


async def test_batches_take_models_of_calls_and_objects_of_sdks() -> None:
    class ToolUse(BaseModel):
        type: str = "tool_use"
        id: str
        name: str
        input: dict[str, Any]
        caller: None = None

    record = {"id": "a", "type": "function", "success": True, "result": json.dumps(DONE)}
    script = Script(httpx.Response(200, json=[record]), httpx.Response(200, json=[{"type": "tool_result"}]))
    fleet = script.fleet()
    [result] = await fleet.batch([Count(to=4)], parallel=False, session_id="s")
    assert isinstance(result, Succeeded) and result.output.n == 4
    assert script.body(0) == {"calls": [{"name": "count", "arguments": {"to": 4}}], "parallel": False, "session_id": "s"}
    assert await fleet.batch([ToolUse(id="b", name="t", input={})]) == [{"type": "tool_result"}]
    assert script.body(1) == {"calls": [{"type": "tool_use", "id": "b", "name": "t", "input": {}}]}


async def test_parses_events_from_chunks_of_any_size() -> None:
    text = ': ping\r\n\r\nid: 1\nevent: progress\ndata: {"a":"\u2028"}\n\ndata: x\ndata: y\n\nid: 3\n\n'
    for size in (1, 2, 7, len(text)):
        parser = EventParser()
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        events = [event for chunk in chunks for event in parser.push(chunk)]
        assert events == [ServerEvent("1", "progress", '{"a":"\u2028"}'), ServerEvent("", "message", "x\ny")]
