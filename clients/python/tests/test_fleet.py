"""The client and generated models against a running fleet. `test/e2e/python-client.spec.ts` starts one and writes `fleet_tools.py`."""

from __future__ import annotations

import os
from typing import Any

import httpx
import pytest

from toolfleet import CallDone, CallProgress, Failed, Succeeded, ToolCallError, Toolfleet

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif("TOOLFLEET_URL" not in os.environ, reason="needs TOOLFLEET_URL and TOOLFLEET_API_KEY of a fleet"),
]


def open_fleet(**options: Any) -> Toolfleet:
    return Toolfleet(os.environ["TOOLFLEET_URL"], os.environ["TOOLFLEET_API_KEY"], **options)


async def test_calls_by_model_and_by_name() -> None:
    from fleet_tools import Calculator, CalculatorOutput

    async with open_fleet() as fleet:
        result = await fleet.call(Calculator(expression="6 * 7"))
        assert isinstance(result, Succeeded) and isinstance(result.output, CalculatorOutput)
        assert (result.output.result, result.output.value) == (42, "42")
        by_name = await fleet.call("calculator", {"expression": "6 * 7"})
        assert isinstance(by_name, Succeeded) and by_name.output == {"result": 42, "value": "42"}
        failed = await fleet.call(Calculator(expression="1 / 0"))
        assert isinstance(failed, Failed) and failed.code == "TOOL_ERROR", failed
        with pytest.raises(ToolCallError) as caught:
            await fleet.call("no_such_tool")
        assert (caught.value.code, caught.value.status) == ("TOOL_NOT_FOUND", 404)
        assert (await fleet.describe("calculator"))["name"] == "calculator"
        assert "step" in [tool["function"]["name"] for tool in await fleet.list_tools(format="openai")]


async def test_reports_progress_and_follows_calls_in_the_background() -> None:
    from fleet_tools import Step

    reports: list[CallProgress] = []
    async with open_fleet() as fleet:
        result = await fleet.call(Step(label="a"), on_progress=reports.append)
        assert result.success is True
        assert [(report.message, report.progress, report.total) for report in reports] == [("half", 1, 2)]
        call_id = await fleet.call_async(Step(label="b"))
        events = [event async for event in fleet.follow(call_id)]
        assert [event.type for event in events] == ["accepted", "started", "progress", "done"]
        done = events[-1]
        assert isinstance(done, CallDone) and done.result is not None and done.result.success is True
        status = await fleet.wait(call_id)
        assert status.is_final and status.result == done.result


async def test_batches_of_models_and_of_a_message() -> None:
    from fleet_tools import Calculator

    call = {"id": "call_1", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "6 * 7"}'}}
    async with open_fleet() as fleet:
        results = await fleet.batch([Calculator(expression="1 + 1"), Calculator(expression="1 / 0")])
        assert [result.success for result in results] == [True, False]
        assert isinstance(results[0], Succeeded) and results[0].output.result == 2
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        [answer] = await fleet.batch(message, format="openai")
        assert (answer["role"], answer["tool_call_id"]) == ("tool", "call_1") and "42" in answer["content"]


async def test_a_lost_response_does_not_run_the_tool_twice() -> None:
    from fleet_tools import Step

    class Losing(httpx.AsyncHTTPTransport):
        lost = False

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            if self.lost:
                return response
            self.lost = True
            await response.aread()
            raise httpx.ReadError("the response is lost")

    async with httpx.AsyncClient(transport=Losing()) as http, open_fleet(http=http, retries=1) as fleet:
        first = await fleet.call(Step(label="c"))
        second = await fleet.call(Step(label="d"))
    assert isinstance(first, Succeeded) and isinstance(second, Succeeded)
    assert first.metadata["idempotent_replay"] is True
    assert second.output["started"] - first.output["started"] == 1
