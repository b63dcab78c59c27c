"""Async client of toolfleet. `Toolfleet` calls tools; `fleetctl tools types --python` writes models of their arguments and outputs."""

from .client import CallFields, ListFormat, ProviderFormat, Toolfleet
from .errors import OutputMismatchError, ToolCallError
from .models import (
    ABSENT,
    CallAccepted,
    CallDone,
    CallEvent,
    CallProgress,
    CallStarted,
    CallStatus,
    Failed,
    Result,
    Succeeded,
    ToolCall,
    ToolModel,
    Usage,
)

__all__ = [
    "ABSENT",
    "CallAccepted",
    "CallDone",
    "CallEvent",
    "CallFields",
    "CallProgress",
    "CallStarted",
    "CallStatus",
    "Failed",
    "ListFormat",
    "OutputMismatchError",
    "ProviderFormat",
    "Result",
    "Succeeded",
    "ToolCall",
    "ToolCallError",
    "ToolModel",
    "Toolfleet",
    "Usage",
]
