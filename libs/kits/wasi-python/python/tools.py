# What a program uses to call tools: `tools`, `gather` and the errors they raise. Requests leave and answers come as lines of
# JSON through the device /dev/tools; the gateway makes the calls. Calls are numbered in program order, and asyncio gets their
# answers in that order, so that a program that runs again takes the same path.
class ToolError(Exception):
    """A call of a tool that was refused or failed: `code`, `message`, `hint`, `retryable`, `details`, `tool`."""
    def __init__(self, tool, answer):
        super().__init__(answer.get("message") or answer["code"])
        self.tool, self.code, self.message = tool, answer["code"], answer.get("message") or ""
        self.hint, self.retryable, self.details = answer.get("hint"), bool(answer.get("retryable")), answer.get("details")
    def __str__(self): return f"{self.tool}: {self.message} ({self.code})"

class OutcomeUnknown(ToolError):
    """It is not known whether the call took effect. Check before you repeat it."""

class _OtherPath(BaseException):
    """This run asked for another call than the run before it did. Nothing may continue from here."""

class ToolResult:
    """A successful call: `output` (JSON value), `text` (for a model), `content` (images and other blocks), `call_id`, `cost_usd`; `note` tells why it is not a live result, else None."""
    def __init__(self, answer):
        self.output, self.text, self.content = answer.get("output"), answer.get("text", ""), answer.get("content") or []
        self.call_id, self.cost_usd, self.note = answer.get("call_id"), answer.get("cost_usd", 0), answer.get("note")
    def __repr__(self): return f"ToolResult({self.text[:200]!r})"

class _Device:
    """Sends numbered requests and keeps the answers that have not been taken."""
    def __init__(self):
        self.fd, self.last, self.buffer, self.answers, self.open = None, 0, b"", {}, set()
    def ask(self, request):
        if self.fd is None: self.fd = os.open("/dev/tools", os.O_RDWR)
        self.last += 1
        line = _encode({"n": self.last, **request}).encode() + b"\n"
        while line: line = line[os.write(self.fd, line):]
        self.open.add(self.last)
        return self.last
    def take(self, number):
        """Waits for an answer. Those of earlier calls arrive first or are kept."""
        while number not in self.answers: self._read()
        self.open.discard(number)
        return self.answers.pop(number)
    def _read(self):
        while b"\n" not in self.buffer:
            part = os.read(self.fd, 1 << 16)
            if not part: raise RuntimeError("the connection to the tools has ended")
            self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer = json.loads(line)
        self.answers[answer["n"]] = answer
_device = _Device()
_awaited = {}                                                  # number of a call: (the future of its awaiter, tool)

def _result(tool, answer):
    if answer.get("ok"): return ToolResult(answer)
    if answer.get("other_path"): raise _OtherPath()
    raise (OutcomeUnknown if answer["code"] == "OUTCOME_UNKNOWN" else ToolError)(tool, answer)

def _wake_awaiter():
    """Called by the event loop when nothing else is ready: hands out the answer of the earliest awaited call."""
    if not _awaited: return False
    number = min(_awaited)
    future, tool = _awaited.pop(number)
    answer = _device.take(number)
    if future.cancelled(): return True
    try: future.set_result(_result(tool, answer))
    except Exception as error: future.set_exception(error)
    return True

class ToolCall:
    """A call that has been sent. `result()` waits for its output."""
    def __init__(self, tool, number): self._tool, self._number, self._answer = tool, number, None
    def _full(self):
        if self._answer is None: self._answer = _device.take(self._number)
        return _result(self._tool, self._answer)
    def result(self): return self._full().output

class Tool:
    """One tool. Call it with keyword arguments: `tools.name(key=value)` returns its output."""
    def __init__(self, name, selection=None):
        self.__name__ = self.name = name
        self._selection = selection
    def select(self, expression):
        """The same tool with another output: the part that a JSONPath (from `$`) or JMESPath expression selects."""
        return Tool(self.name, str(expression))
    def _send(self, args, arguments):
        if args: raise TypeError(f"{self.name} takes keyword arguments only, as in tools.{self.name}(key=value)")
        selection = {} if self._selection is None else {"select": self._selection}
        return _device.ask({"op": "call", "tool": self.name, "arguments": arguments, **selection})
    def __call__(self, /, *args, **arguments): return self.call(*args, **arguments).output
    def call(self, /, *args, **arguments):
        """Calls the tool and returns a ToolResult: output, text, content, call_id and cost_usd."""
        return ToolCall(self.name, self._send(args, arguments))._full()
    def start(self, /, *args, **arguments):
        """Sends the call and returns at once; `result()` of what it returns waits. `gather` waits for several."""
        return ToolCall(self.name, self._send(args, arguments))
    async def aio(self, /, *args, **arguments):
        """For `await` and `asyncio.gather`."""
        import asyncio
        future = asyncio.get_running_loop().create_future()
        _awaited[self._send(args, arguments)] = (future, self.name)
        return (await future).output
    def describe(self):
        """Signature, types and description, from the tool's schema."""
        answer = _device.take(_device.ask({"op": "describe", "tool": self.name}))
        return _result(self.name, answer).text
    def __repr__(self): return f"<tool {self.name}>"

class Tools:
    """The tools that this program may call: `tools.name(key=value)`, or `tools["name-with-dash"](key=value)`."""
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Tool(name)
    def __getitem__(self, name): return Tool(name)
    def search(self, query, limit=5, detail="summary"):
        """Finds tools for a task, best first: names, or with detail="summary" {"name", "description", "signature"}; "full" adds the schemas."""
        question = {"op": "search", "query": str(query), "limit": int(limit), "detail": str(detail)}
        return _result("tools.search", _device.take(_device.ask(question))).output

def gather(*calls, return_errors=False):
    """Outputs of calls that were started together, in order. Waits for all; then raises the first error, unless they are returned."""
    outputs, first = [], None
    for call in calls:
        if not isinstance(call, ToolCall): outputs.append(call); continue
        try: outputs.append(call.result())
        except ToolError as error:
            first = first or error
            outputs.append(error)
    if first is not None and not return_errors: raise first
    return outputs

def _help(topic=None):
    print(topic.describe() if isinstance(topic, Tool) else getattr(topic, "__doc__", None) or Tools.__doc__)

class _StartInGather(ast.NodeTransformer):
    """`gather(tools.a(x=1), …)` sends all calls before it waits for one: calls of tools in its arguments become `.start(…)`."""
    inside = False
    def _names_tool(self, node):
        """`tools.a`, `tools["a"]` or `tools.a.select("…")`."""
        if isinstance(node, ast.Call): return isinstance(node.func, ast.Attribute) and node.func.attr == "select" and self._names_tool(node.func.value)
        return isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name) and node.value.id == "tools" and getattr(node, "attr", "") != "search"
    def visit_Call(self, node):
        before, is_gather = self.inside, isinstance(node.func, ast.Name) and node.func.id == "gather"
        func = node.func
        if before and self._names_tool(func):
            self.inside = False                                # arguments of a tool are values
            self.generic_visit(node)
            node.func = ast.copy_location(ast.Attribute(value=func, attr="start", ctx=ast.Load()), func)
        else:
            self.inside = is_gather
            self.generic_visit(node)
        self.inside = before
        return node
    def visit_Lambda(self, node):
        before, self.inside = self.inside, False
        self.generic_visit(node)
        self.inside = before
        return node

def _program_names(request):
    """The names of a program that calls tools."""
    random.seed(request["seed"])
    return {"tools": Tools(), "gather": gather, "ToolError": ToolError, "OutcomeUnknown": OutcomeUnknown, "help": _help, "inputs": json.loads(request["inputs"])}

def _await_started():
    """A program ends when its calls have: one that it started and never waited for still takes effect."""
    for number in sorted(_device.open): _device.take(number)
