"""Server-sent events."""

from __future__ import annotations

from typing import NamedTuple


class ServerEvent(NamedTuple):
    """One server-sent event."""

    id: str
    type: str
    data: str


class EventParser:
    """Parses server-sent events from chunks of text that may be split anywhere. Comments are ignored.

    `httpx.Response.aiter_lines` also splits at separators such as U+2028, which JSON may contain.
    """

    def __init__(self) -> None:
        self._rest = ""

    def push(self, chunk: str) -> list[ServerEvent]:
        """Adds a chunk and returns the events that it completes."""
        *parts, self._rest = (self._rest + chunk).replace("\r\n", "\n").split("\n\n")
        return [event for part in parts if (event := _parse(part)) is not None]


def _parse(text: str) -> ServerEvent | None:
    event_id, event_type, data = "", "message", []
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            event_id = value
        elif name == "event":
            event_type = value
        elif name == "data":
            data.append(value)
    return ServerEvent(event_id, event_type, "\n".join(data)) if data else None
