"""Errors of the client, and which of them are worth a repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

    from .models import Succeeded

# Codes whose refusal is of the moment: `retryable` in the catalogue of the fleet, for calls refused before their tool ran.
TRANSIENT_CODES = frozenset(
    {
        "BREAKER_OPEN",
        "BUDGET_UNAVAILABLE",
        "CALL_IN_PROGRESS",
        "DEADLINE_EXCEEDED",
        "EXECUTOR_UNAVAILABLE",
        "INTERNAL",
        "QUEUE_FULL",
        "RATE_LIMITED",
        "SERVICE_UNAVAILABLE",
    }
)


class ToolCallError(Exception):
    """A request that was refused, or got no response. A failure of the tool itself is a result with `success=False` instead.

    `code` is a code of the fleet (docs/errors.md), or CONNECTION_FAILED or BAD_ANSWER of this client. `status` is the HTTP status, 0 without
    a response. `hint` says what to do. `retry_after` is the earliest useful repetition, in seconds.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        hint: str | None = None,
        details: dict[str, Any] | None = None,
        call_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.hint = hint
        self.details = details
        self.call_id = call_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.hint is None else f"{self.code}: {self.message} ({self.hint})"

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code == "CONNECTION_FAILED" or (self.status > 0 and self.code in TRANSIENT_CODES)


class OutputMismatchError(ToolCallError):
    """The tool succeeded, and its output does not match the model. `result` has the output as it came."""

    def __init__(self, result: Succeeded[Any], message: str) -> None:
        super().__init__("BAD_ANSWER", message, status=200, call_id=result.call_id)
        self.result = result


def error_of(response: httpx.Response) -> ToolCallError:
    """The error of a response that has been read. A body that is not of the fleet, as of a proxy, gets a code by its status."""
    try:
        body = response.json()
    except ValueError:
        body = None
    fields: dict[str, Any] = body if isinstance(body, dict) else {}
    retry_after_ms = fields.get("retry_after_ms")
    if retry_after_ms is None and response.headers.get("retry-after", "").isdigit():
        retry_after_ms = int(response.headers["retry-after"]) * 1_000
    return ToolCallError(
        fields.get("code") or _default_code(response.status_code),
        fields.get("error") or f"The gateway responded with status {response.status_code}",
        status=response.status_code,
        hint=fields.get("hint"),
        details=fields.get("details"),
        call_id=fields.get("call_id"),
        retry_after=None if retry_after_ms is None else retry_after_ms / 1_000,
    )


def _default_code(status: int) -> str:
    known = {
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        413: "PAYLOAD_TOO_LARGE",
        429: "RATE_LIMITED",
        502: "SERVICE_UNAVAILABLE",
        503: "SERVICE_UNAVAILABLE",
        504: "SERVICE_UNAVAILABLE",
    }
    return known.get(status, "INTERNAL" if status >= 500 else "REQUEST_INVALID")
