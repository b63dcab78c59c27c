"""The client."""

from __future__ import annotations

import json
import math
import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast, overload
from urllib.parse import quote

import anyio
import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import Self, TypedDict, Unpack

from .errors import OutputMismatchError, ToolCallError, error_of
from .events import EventParser
from .models import (
    CallDone,
    CallEvent,
    CallProgress,
    CallStatus,
    Failed,
    Result,
    Succeeded,
    ToolCall,
    arguments_of,
    output_type_of,
    tool_of,
)

Output = TypeVar("Output")

ProviderFormat = Literal["openai", "openai-responses", "anthropic", "gemini"]
"""The API of a model provider."""
ListFormat = Literal[
    "openai", "openai-strict", "openai-responses", "openai-responses-strict", "anthropic", "gemini", "mcp"
]
"""Forms in which tools are listed for a model provider or client."""

# Longest wait for the response of a call, in seconds; the gateway's own limit is 120.
_CALL_TIMEOUT = 125.0
# Timeout of requests that run no tool.
_READ_TIMEOUT = 15.0
_POLL_FIRST, _POLL_LONGEST = 0.1, 2.0
# Pauses before repeated requests, unless the gateway names one.
_RETRY_FIRST, _RETRY_LONGEST = 0.2, 5.0
# How often in a row `follow` may find no event stream before it gives up.
_MAX_LOST_STREAMS = 8

_RESULT: TypeAdapter[Any] = TypeAdapter(Succeeded[Any] | Failed)
_EVENT: TypeAdapter[Any] = TypeAdapter(CallEvent)
_STATUS: TypeAdapter[CallStatus] = TypeAdapter(CallStatus)


class CallFields(TypedDict, total=False):
    """Fields of a call (docs/call-fields.md)."""

    session_id: str
    request_id: str
    agent_id: str
    task_id: str
    idempotency_key: str
    timeout_ms: int
    dry_run: bool
    no_retry: bool
    cache: Literal["no-store", "reload"]
    select: str
    max_result_kb: int


class Toolfleet:
    """Calls tools of a fleet over HTTP. Use it as `async with Toolfleet(url, key) as fleet:`, in asyncio or trio.

    Methods raise `ToolCallError` when the fleet refuses the request or is unreachable. A failure of the tool itself is a result with
    `success=False`. Cancelling the task of a call cancels the call.

    :param url: address of the gateway, such as `http://127.0.0.1:8080`
    :param key: API key or token
    :param toolset: toolset whose tools are listed and called: `support`, or `support@3` for one version
    :param retries: how often a request is repeated that was refused for the moment or got no response. Calls then carry an idempotency key,
        so that none runs twice: they bypass the cache, and their results are stored
    :param http: client to send with, for proxies, certificates or tests; the caller closes it
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        toolset: str | None = None,
        retries: int = 0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        # An int of Python has any size; without this, integers beyond 2^53 arrive as strings.
        self._headers = {"prefer": "large-integers=digits"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        self._toolset = toolset
        self._retries = retries
        # Every request has a deadline of its own.
        self._http = http or httpx.AsyncClient(timeout=httpx.Timeout(None, connect=10))
        self._owns_http = http is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def list_tools(
        self, *, category: str | None = None, format: ListFormat | None = None, toolset: str | None = None
    ) -> list[dict[str, Any]]:
        """Tools that the caller may use, by default with name, description and JSON Schema; with `format` as a model provider takes them."""
        query = {"category": category, "format": format, "toolset": toolset or self._toolset}
        return cast("list[dict[str, Any]]", await self.request("GET", "/api/v1/tools", query=query))

    async def describe(self, name: str, *, toolset: str | None = None) -> dict[str, Any]:
        """One tool."""
        query = {"toolset": toolset or self._toolset}
        return cast("dict[str, Any]", await self.request("GET", f"/api/v1/tools/{_segment(name)}", query=query))

    @overload
    async def call(
        self,
        call: ToolCall[Output],
        /,
        *,
        on_progress: Callable[[CallProgress], object] | None = None,
        timeout: float | None = None,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> Result[Output]: ...

    @overload
    async def call(
        self,
        call: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        on_progress: Callable[[CallProgress], object] | None = None,
        timeout: float | None = None,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> Result[Any]: ...

    async def call(
        self,
        call: ToolCall[Any] | str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        on_progress: Callable[[CallProgress], object] | None = None,
        timeout: float | None = None,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> Result[Any]:
        """Runs a tool and waits for its result: `await fleet.call(Calculator(expression="6 * 7"))`, or by name with a dictionary.

        With `on_progress` the call runs in the background and its reports are passed on; a call that is refused after its acceptance is then
        a `Failed`. `timeout` is in seconds, by default 125, with `on_progress` 600.

        :raises OutputMismatchError: the output does not match the model, also because of `select` or `dry_run`
        """
        if on_progress is None:
            path, query, body = self._call_request(call, arguments, toolset, dict(fields))
            answer = await self.request("POST", path, query=query, body=body, timeout=timeout or _CALL_TIMEOUT)
            return _result(answer, call)
        call_id = await self.call_async(call, arguments, toolset=toolset, **fields)
        try:
            with anyio.fail_after(timeout or 600):
                async for event in self.follow(call_id):
                    if isinstance(event, CallProgress):
                        on_progress(event)
                    elif isinstance(event, CallDone):
                        return _done(event, call, call_id)
        except TimeoutError:
            await self._cancel_quietly(call_id)
            raise ToolCallError("DEADLINE_EXCEEDED", f"No result within {timeout or 600} s", call_id=call_id) from None
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._cancel_quietly(call_id)
            raise
        raise ToolCallError("BAD_ANSWER", "The events of the call ended without its result", call_id=call_id)

    async def call_async(
        self,
        call: ToolCall[Any] | str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> str:
        """Starts a call in the background and returns its id; see `wait` and `follow`."""
        path, query, body = self._call_request(call, arguments, toolset, dict(fields))
        answer = await self.request("POST", path, query=query, body={**body, "mode": "async"})
        return cast(str, answer["call_id"])

    @overload
    async def batch(
        self,
        calls: Sequence[Any] | Mapping[str, Any] | BaseModel,
        /,
        *,
        format: ProviderFormat,
        parallel: bool | None = None,
        max_parallel: int | None = None,
        timeout: float = _CALL_TIMEOUT,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> list[dict[str, Any]]: ...

    @overload
    async def batch(
        self,
        calls: Sequence[ToolCall[Output]],
        /,
        *,
        format: None = None,
        parallel: bool | None = None,
        max_parallel: int | None = None,
        timeout: float = _CALL_TIMEOUT,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> list[Result[Output]]: ...

    @overload
    async def batch(
        self,
        calls: Sequence[Any] | Mapping[str, Any] | BaseModel,
        /,
        *,
        format: None = None,
        parallel: bool | None = None,
        max_parallel: int | None = None,
        timeout: float = _CALL_TIMEOUT,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> list[Any]: ...

    async def batch(
        self,
        calls: Sequence[Any] | Mapping[str, Any] | BaseModel,
        /,
        *,
        format: ProviderFormat | None = None,
        parallel: bool | None = None,
        max_parallel: int | None = None,
        timeout: float = _CALL_TIMEOUT,
        toolset: str | None = None,
        **fields: Unpack[CallFields],
    ) -> list[Any]:
        """Runs several calls concurrently; results are in the order of the calls.

        `calls` are models of calls, calls as a model of OpenAI, Anthropic or Gemini sends them, or the whole message of one, as dictionaries or
        objects of its SDK. With `format` every result is in the shape that the provider takes back. Without it a model of a call gets a
        `Result`, a call of Anthropic, Gemini or the Responses API that shape, and any other a record with the JSON of its result.
        """
        items = list(calls) if isinstance(calls, Sequence) else [calls]
        order = {name: value for name, value in {"parallel": parallel, "max_parallel": max_parallel}.items() if value is not None}
        answers = await self.request(
            "POST",
            "/api/v1/tools/batch-execute",
            query={"format": format, "toolset": toolset or self._toolset},
            body={"calls": [_item(item) for item in items], **self._with_key(dict(fields)), **order},
            timeout=timeout,
        )
        if format is not None or not any(isinstance(item, ToolCall) for item in items):
            return cast("list[Any]", answers)
        # Only a message has more answers than items, and lists of models have no message.
        return [_of_record(answer, item) for answer, item in zip(answers, items, strict=True)]

    async def status(self, call_id: str) -> CallStatus:
        """State of a call in the background, or of one whose result is kept."""
        return _read(_STATUS, await self.request("GET", f"/api/v1/calls/{_segment(call_id)}"))

    async def wait(self, call_id: str, *, timeout: float = 600) -> CallStatus:
        """Waits until a call has ended, at most `timeout` seconds. Polls at growing intervals."""
        until = anyio.current_time() + timeout
        pause = _POLL_FIRST
        while not (status := await self.status(call_id)).is_final:
            if anyio.current_time() + pause > until:
                raise ToolCallError("DEADLINE_EXCEEDED", f"Call {call_id} is still {status.status}", call_id=call_id)
            await anyio.sleep(pause)
            pause = min(_POLL_LONGEST, pause * 1.5)
        return status

    async def cancel(self, call_id: str) -> str:
        """Cancels a call in the background and returns its state."""
        answer = await self.request("DELETE", f"/api/v1/calls/{_segment(call_id)}")
        return cast(str, answer["status"])

    async def follow(self, call_id: str, *, last_id: str | None = None) -> AsyncIterator[CallEvent]:
        """Events of a call: `accepted`, `started`, `progress`, and `done` with the result. Resumes after lost connections until `done`."""
        lost = 0
        while True:
            try:
                async for event in self._stream(call_id, last_id):
                    last_id, lost = event.id, 0
                    yield event
                    if isinstance(event, CallDone):
                        return
                # A stream has a maximum duration. After the last event of an ended call there is no other.
                if (await self.status(call_id)).is_final and last_id is not None:
                    return
                await anyio.sleep(_RETRY_FIRST)
            except ToolCallError as error:
                lost += 1
                if lost > _MAX_LOST_STREAMS or not error.is_transient:
                    raise
                await anyio.sleep(_retry_pause(lost, error))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        timeout: float = _READ_TIMEOUT,
    ) -> Any:
        """Sends any request of the HTTP API and returns the body of its answer: JSON, text, or None. `/openapi.json` describes the routes."""
        until = anyio.current_time() + timeout
        # Repeating these changes nothing.
        is_repeatable = method == "GET" or (body is not None and "idempotency_key" in body)
        tries = 0
        while True:
            try:
                with anyio.fail_after(until - anyio.current_time()):
                    return await self._send(method, path, query, body, until if tries > 0 else None)
            except TimeoutError:
                raise ToolCallError("DEADLINE_EXCEEDED", f"No response within {timeout} s") from None
            except ToolCallError as error:
                tries += 1
                pause = _retry_pause(tries, error)
                is_late = anyio.current_time() + pause > until
                if not is_repeatable or tries > self._retries or not error.is_transient or is_late:
                    raise
                await anyio.sleep(pause)

    async def _send(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Mapping[str, Any] | None, wait_until: float | None
    ) -> Any:
        headers = dict(self._headers)
        if body is not None and wait_until is not None:
            # The first request of the key may still run.
            headers["prefer"] += f", wait={math.ceil(wait_until - anyio.current_time())}"
        try:
            response = await self._http.request(
                method, self._url + path, params=_present(query), json=body, headers=headers
            )
        except httpx.TransportError as cause:
            raise self._unreachable(cause) from cause
        if not response.is_success:
            raise error_of(response)
        if not response.content:
            return None
        if response.headers.get("content-type", "").startswith("text/"):
            return response.text
        try:
            return response.json()
        except ValueError:
            raise ToolCallError("BAD_ANSWER", "The response is not JSON", status=response.status_code) from None

    async def _stream(self, call_id: str, last_id: str | None) -> AsyncIterator[CallEvent]:
        headers = {**self._headers, "accept": "text/event-stream"}
        if last_id is not None:
            headers["last-event-id"] = last_id
        parser = EventParser()
        try:
            async with self._http.stream("GET", f"{self._url}/api/v1/calls/{_segment(call_id)}/events", headers=headers) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                async for chunk in response.aiter_text():
                    for event_id, event_type, data in parser.push(chunk):
                        yield _read(_EVENT, {**json.loads(data), "id": event_id, "type": event_type})
        except httpx.TransportError as cause:
            raise self._unreachable(cause) from cause

    def _unreachable(self, cause: httpx.TransportError) -> ToolCallError:
        return ToolCallError("CONNECTION_FAILED", f"The gateway at {self._url} is unreachable: {str(cause) or type(cause).__name__}")

    def _call_request(
        self, call: ToolCall[Any] | str, arguments: Mapping[str, Any] | None, toolset: str | None, fields: dict[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, Any]]:
        """Path, query and body of a call."""
        name, sent = (call, dict(arguments or {})) if isinstance(call, str) else (tool_of(call), arguments_of(call))
        body = {"arguments": sent, **self._with_key(fields)}
        return f"/api/v1/tools/{_segment(name)}/execute", {"toolset": toolset or self._toolset}, body

    def _with_key(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Fields with an idempotency key, if the request may be repeated."""
        return fields if self._retries == 0 else {"idempotency_key": secrets.token_hex(16), **fields}

    async def _cancel_quietly(self, call_id: str) -> None:
        try:
            await self.cancel(call_id)
        except ToolCallError:
            pass  # It ended meanwhile, or ends by its own deadline.


def _result(answer: Any, call: ToolCall[Any] | str) -> Result[Any]:
    """A result with the output in the type of the call's model."""
    result: Result[Any] = answer if isinstance(answer, (Succeeded, Failed)) else _read(_RESULT, answer)
    if isinstance(result, Failed) or isinstance(call, str) or output_type_of(call) is Any:
        return result
    output_type = output_type_of(call)
    try:
        output = TypeAdapter(output_type).validate_python(result.output)
    except ValidationError as cause:
        raise OutputMismatchError(result, f"The output of {tool_of(call)} is not its {output_type}: {cause}") from cause
    return Succeeded[Any].model_construct(**{**dict(result), "output": output})


def _read(adapter: TypeAdapter[Output], value: Any) -> Output:
    """A part of the protocol."""
    try:
        return adapter.validate_python(value)
    except ValidationError as cause:
        raise ToolCallError("BAD_ANSWER", f"The response is not of the protocol: {cause}") from cause


def _done(event: CallDone, call: ToolCall[Any] | str, call_id: str) -> Result[Any]:
    if event.result is not None:
        return _result(event.result, call)
    code = "OUTCOME_UNKNOWN" if event.state == "outcome_unknown" else "CANCELLED"
    raise ToolCallError(code, f"Call {call_id} is {event.state}", call_id=call_id)


def _item(item: Any) -> Any:
    """A call or message of a batch as JSON; SDKs of providers have them as models of pydantic."""
    if isinstance(item, ToolCall):
        return {"name": tool_of(item), "arguments": arguments_of(item)}
    if isinstance(item, BaseModel):
        return item.model_dump(mode="json", exclude_none=True)
    return item


def _of_record(answer: dict[str, Any], item: Any) -> Any:
    if not isinstance(item, ToolCall):
        return answer
    return _result({**json.loads(answer["result"]), "content": answer.get("content") or []}, item)


def _present(query: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _segment(text: str) -> str:
    return quote(text, safe="")


def _retry_pause(n: int, error: ToolCallError) -> float:
    """Pause in seconds before repetition `n` (from 1) of a refused request, with jitter."""
    if error.retry_after is not None:
        return error.retry_after
    return min(_RETRY_LONGEST, _RETRY_FIRST * 2.0 ** (n - 1)) * (0.5 + random.random() / 2)
