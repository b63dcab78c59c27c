"""Results and events of calls, and the base classes of generated models."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAlias

Output = TypeVar("Output")

ABSENT: Any = None
"""Default of an optional argument: it is not sent unless it is passed."""


class ToolModel(BaseModel):
    """Base of generated models. Members that a model does not know are kept; reserved names are taken in both spellings."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, protected_namespaces=())


class ToolCall(ToolModel, Generic[Output]):
    """Base of the generated model of a tool: a call of it, with its arguments as fields. `Output` is the type of its output.

    Arguments that were not passed are not sent, so that the fleet applies the defaults.
    """

    _tool: ClassVar[str] = ""
    _output: ClassVar[Any] = Any

    @classmethod
    def __pydantic_init_subclass__(cls, *, tool: str | None = None, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if tool is not None:
            cls._tool = tool
        for base in cls.__mro__:
            generic = getattr(base, "__pydantic_generic_metadata__", {})
            if generic.get("origin") is ToolCall:
                cls._output = generic["args"][0]
                break

    def __init_subclass__(cls, *, tool: str | None = None, **kwargs: Any) -> None:
        # Declared for type checkers; pydantic passes the keyword to `__pydantic_init_subclass__`.
        super().__init_subclass__(**kwargs)


# Not methods: a tool may have an argument of any name that does not start with an underscore.
def tool_of(call: ToolCall[Any]) -> str:
    """Name of the tool of a call."""
    return call._tool


def output_type_of(call: ToolCall[Any]) -> Any:
    """Type of the output of a call."""
    return call._output


def arguments_of(call: ToolCall[Any]) -> dict[str, Any]:
    """The arguments that were passed, as JSON."""
    return call.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Usage(BaseModel):
    """What a call was charged."""

    tokens: int = 0
    cost_usd: float = 0
    replayed: bool = False
    """The charge of the first call with the same idempotency key."""


class _Ended(BaseModel):
    model_config = ConfigDict(extra="allow")

    text: str = ""
    """A summary for a model."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    content: list[dict[str, Any]] = Field(default_factory=list)
    """Images, audio, links and embedded resources, as content blocks of MCP."""
    execution_time_ms: int = 0
    usage: Usage = Field(default_factory=Usage)
    call_id: str = ""


class Succeeded(_Ended, Generic[Output]):
    """The tool succeeded."""

    success: Literal[True]
    output: Output
    error: None = None


class Failed(_Ended):
    """The tool ran and failed. `output` is what it returned nevertheless, or None."""

    success: Literal[False]
    output: Any = None
    error: str

    @property
    def code(self) -> str | None:
        """Code of the failure (docs/errors.md)."""
        code = self.metadata.get("code")
        return code if isinstance(code, str) else None

    @property
    def is_retryable(self) -> bool:
        """Whether a new call may succeed."""
        return self.metadata.get("retryable") is True


Result: TypeAlias = Union[Succeeded[Output], Failed]
"""What a call returned: `success` says which of both."""


class CallStatus(BaseModel):
    """State of an asynchronous call, with its result once it has ended; `result_omitted` says why the result is for others only."""

    model_config = ConfigDict(extra="allow")

    call_id: str
    tool: str
    status: str
    arguments: dict[str, Any] | None = None
    accepted_at: str | None = None
    finished_at: str | None = None
    result: Annotated[Union[Succeeded[Any], Failed], Field(discriminator="success")] | None = None
    result_omitted: dict[str, Any] | None = None

    @property
    def is_final(self) -> bool:
        """Whether the state never changes again."""
        return self.status in {"succeeded", "failed", "cancelled", "expired", "outcome_unknown"}


class _Event(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str
    """Resumes a stream after this event."""


class CallAccepted(_Event):
    """The call is queued."""

    type: Literal["accepted"]


class CallStarted(_Event):
    """The call runs."""

    type: Literal["started"]


class CallProgress(_Event):
    """A report of the tool."""

    type: Literal["progress"]
    message: str | None = None
    progress: float | None = None
    total: float | None = None


class CallDone(_Event):
    """The call has ended; `result` is None if it ended without one, as an expired call does."""

    type: Literal["done"]
    state: str
    result: Annotated[Union[Succeeded[Any], Failed], Field(discriminator="success")] | None = None


CallEvent: TypeAlias = Union[CallAccepted, CallStarted, CallProgress, CallDone]
"""One event of a call; `type` says which."""
