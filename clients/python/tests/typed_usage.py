"""What type checkers see; `mypy` checks this file, nothing runs it."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import assert_type

from toolfleet import ABSENT, Failed, Result, Succeeded, ToolCall, Toolfleet, ToolModel


class CalculatorOutput(ToolModel):
    result: float | str
    value: str


class Calculator(ToolCall[CalculatorOutput], tool="calculator"):
    expression: str
    mode: Literal["exact", "fast"] = ABSENT


async def main(fleet: Toolfleet) -> None:
    result = await fleet.call(Calculator(expression="6 * 7"), session_id="s")
    assert_type(result, Result[CalculatorOutput])
    if isinstance(result, Succeeded):
        assert_type(result.output, CalculatorOutput)
    else:
        assert_type(result, Failed)
    if result.success is True:
        assert_type(result.output.value, str)
    assert_type(await fleet.call("x", {"a": 1}), Result[Any])
    results = await fleet.batch([Calculator(expression="1"), Calculator(expression="2")])
    assert_type(results, list[Result[CalculatorOutput]])
    assert_type(await fleet.batch({"role": "assistant"}, format="openai"), list[dict[str, Any]])
    Calculator(expresion="1")  # type: ignore[call-arg]
    Calculator(expression="1", mode="slow")  # type: ignore[arg-type]
    await fleet.call(Calculator(expression="1"), sesion_id="s")  # type: ignore[call-overload]
