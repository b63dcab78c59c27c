# The guest's side of a run, executed once under `python -I -c`. It imports the preloaded modules, defines `_prepare` and
# `_run`, writes three object addresses and calls `time.time()`, where the host throws and keeps the memory
# (src/wasi/snapshot.ts). In a copy of that memory the host calls `_prepare` at once and `_run` when a program arrives.
#
# src/python/guest-protocol.ts defines the request on fd 0 (marshal) and the reply on /dev/result (JSON).
# src/wasi/snapshot.ts fills in the upper-case placeholders and the included files.
import sys, time, os
for _name in __PRELOAD__:
    try: __import__(_name)
    except ImportError: pass                                   # not in this build (uu): a run gets the usual error
from importlib.util import find_spec
import ast, builtins, gc, io, json, linecache, marshal, random, re, traceback, types
_LEVELS = __LEVELS__
# include: strictness.py
_encode = json.JSONEncoder(allow_nan=False).encode
_long_number = re.compile(r"\d{16}").search                    # compiled now: a run may break what compiling needs
_RESERVED = {"args", "stdin", "files", "result"}
_LAST = "_the_last_expression"
_SAFE_INTEGER = 2 ** 53 - 1
_COROUTINE = 0x80                                              # CO_COROUTINE: the compiled program awaits
_SESSION_BYTES = 1 << 20
_READ = 1 << 16                                                # most requests at once

def _send(frame):
    """Writes the one result frame to a device of the host, apart from the user's stdout."""
    data = _encode(frame).encode()
    fd = os.open("/dev/result", os.O_WRONLY)
    while data: data = data[os.write(fd, data):]
    os.close(fd)

def _receive():
    data = os.read(0, _READ)
    if len(data) == _READ:
        while chunk := os.read(0, 1 << 20): data += chunk
    return marshal.loads(data)

# include: tools.py
def _has_unsafe_integer(value):
    """True when a reader of JSON with double floats would see another number."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, int):
            if abs(item) > _SAFE_INTEGER: return True
        elif isinstance(item, dict): todo.extend(item.values())
        elif isinstance(item, (list, tuple)): todo.extend(item)
    return False

def _put_value(frame, value):
    """JSON when it is JSON and survives the trip; NaN, infinities, huge integers and all else as repr."""
    try:
        text = _encode(value)
        if _long_number(text) and _has_unsafe_integer(value): raise ValueError("an integer beyond 2**53")
        frame["value"] = value
    except (TypeError, ValueError, RecursionError, OverflowError):
        try: frame["value_repr"] = repr(value)[:2000]
        except Exception as error: frame["value_repr"] = f"<{type(value).__name__}: repr failed: {error}>"[:2000]

def _own(filename):
    return filename == "<user>" or (filename.startswith("<") and filename != "<sandbox>" and not filename.startswith("<frozen"))

def _own_frames(summary, seen):
    """Leaves the user's lines only, in the error and in those it was raised from."""
    while summary is not None and id(summary) not in seen:
        seen.add(id(summary))
        summary.stack = traceback.StackSummary.from_list([f for f in summary.stack if _own(f.filename)])
        for inner in (summary.__cause__, *(summary.exceptions or ())): _own_frames(inner, seen)
        summary = summary.__context__

def _describe(error, level):
    kind, line = type(error).__name__, getattr(error, "lineno", None)
    name = getattr(error, "name", None)
    if isinstance(error, NameError) and name in _BANNED[level]:        # bound somewhere, used where it is not
        kind, error_text = "PolicyError", f"builtin '{name}' is not allowed at strictness '{level}'"
    elif type(error) is ModuleNotFoundError and name:
        error_text = f"module '{name}' is not available in this sandbox"
    else:
        try: error_text = str(error)
        except BaseException: error_text = "<the error has no readable message>"
    tb, last = error.__traceback__, None                       # may be a million long: no list of it
    while tb is not None:
        if _own(tb.tb_frame.f_code.co_filename): last = tb
        tb = tb.tb_next
    if last is not None: line = last.tb_lineno
    try:
        summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=-20, compact=True)
        _own_frames(summary, set())
        trace = "".join(summary.format())
    except BaseException as failure:
        trace = f"<no traceback: {type(failure).__name__}>"
    return {"type": kind, "message": error_text[:2000], "line": line if type(line) is int else None, "traceback": trace[-8000:]}

def _files_of(request):
    """Data files as values, since the open of standard and strict is refused; they also lie under /data."""
    files = {}
    for name, is_text in request["files"].items():
        with io.open("/data/" + name, "rb") as file: data = file.read()
        files[name] = data.decode() if is_text else data
    return files

def _session_of(space):
    """JSON-able variables as one JSON text, which no host parses: integers of any size come back as they were."""
    kept = {}
    for name, value in space.items():
        if name.startswith("_") or name in _RESERVED or type(value) not in (int, float, str, bool, list, dict, type(None)): continue
        try: _encode(value); kept[name] = value
        except Exception: pass
    text = _encode(kept)
    return (text, None) if len(text) <= _SESSION_BYTES else (None, f"variables of {len(text)} bytes, at most {_SESSION_BYTES} are kept")

def _run_awaiting(code, space):
    """Runs a program with `await` at its top level."""
    import asyncio
    asyncio.run(types.FunctionType(code, space)())

_assignment = ast.parse(_LAST + " = 0").body[0]                 # one that is ready costs less than making one
def _evaluate(source, space, level, modules, program):
    """Runs the program; its value is the global 'result', else that of a last expression."""
    tree = ast.parse(source, "<user>")
    if modules is not None: _check(source, tree, level, modules)
    if program is not None: tree = ast.fix_missing_locations(_StartInGather().visit(tree))
    if tree.body and isinstance(tree.body[-1], ast.Expr):      # its value is assigned, so that one compilation is enough
        _assignment.value = tree.body[-1].value
        tree.body[-1] = _assignment
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if program is not None else 0
    code = compile(tree, "<user>", "exec", flags, dont_inherit=True)
    if code.co_flags & _COROUTINE: _run_awaiting(code, space)
    else: exec(code, space)
    if program is not None: _await_started()
    value = space.pop(_LAST, None)
    return space["result"] if "result" in space else value

def _input_of(text):
    return io.TextIOWrapper(io.BytesIO(text.encode("utf-8", "surrogatepass")), "utf-8", "replace")

def _answer(request):
    """The frame of one program."""
    frame = {"kind": "ok"}
    source, level = request["code"], request["strictness"]
    modules = _LEVELS[level]["modules"]
    if modules is not None: modules = modules + request["extra_modules"]
    linecache.cache["<user>"] = (len(source), None, source.splitlines(True), "<user>")
    space = _program.__dict__
    if request["stdin"]: sys.stdin = _input_of(request["stdin"])
    if request["session"]: space.update(json.loads(request["session"]))
    space["__builtins__"] = builtins if modules is None else _guarded_builtins(level, modules)
    space["args"] = json.loads(request["args"]) if request["args"] else None
    space["stdin"], space["files"] = request["stdin"], _files_of(request)
    program = request.get("program")
    if program is not None: space.update(_program_names(program))
    try:
        value = _evaluate(source, space, level, modules, program)
        if value is not None: _put_value(frame, value)
    except SystemExit as error:
        frame["kind"], frame["exit_code"] = "exit", error.code if type(error.code) is int else 0 if error.code is None else 1
    except MemoryError as error:
        _reserve.clear()                                       # frees memory for the reply
        described = _describe(error, level)
        described["message"] = described["message"] or "the run needs more memory than its limit"
        frame = {"kind": "memory", "error": described}
    except BaseException as error:
        described = _describe(error, level)
        frame = {"kind": "policy" if described["type"] == "PolicyError" else "error", "error": described}
    for stream in (sys.stdout, sys.stderr):
        try: stream.flush()
        except BaseException: pass
    if request["keep_session"] and frame["kind"] != "memory": frame["session"], frame["session_note"] = _session_of(space)
    return frame

def _run():
    try: _send(_answer(_receive()))
    except BaseException as error:                             # the reply itself failed: send the shortest one
        _reserve.clear()
        _send({"kind": "memory" if isinstance(error, MemoryError) else "crashed", "error": {"type": type(error).__name__, "message": "the result could not be written", "line": None, "traceback": ""}})

def _prepare():
    """What a run needs and no request changes."""
    random.seed()                                              # the generator's state in the image is shared by all runs

# include: patches.py
# --- the quiet point ------------------------------------------------------------------------------------------------

def _renamed(code):
    inner = tuple(_renamed(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_filename="<sandbox>", co_consts=inner)
_classes = [_AsyncioPatch, _PatchingLoader, _Device, ToolError, ToolResult, ToolCall, Tool, Tools, _StartInGather]
_spaces = [globals(), *map(vars, _classes)]
for _function in [f for space in _spaces for f in list(space.values()) if isinstance(f, types.FunctionType)]:
    _function.__code__ = _renamed(_function.__code__)          # told apart from the user's lines in a traceback
for _stream in (sys.stdout, sys.stderr):                       # by line: a run that is stopped keeps what it printed
    _stream.reconfigure(errors="backslashreplace", line_buffering=True)
_reserve = bytearray(1 << 20)
_own_main = sys.modules["__main__"]                            # stays alive: these functions live in it
# include: warm_up.py
_program = sys.modules["__main__"] = types.ModuleType("__main__")    # stays alive too: no __del__ after the answer
sys.argv, sys.stdin = ["<user>"], _input_of("")
_heap = [bytearray(1 << 16) for _ in range(64)]                # grow the heap now, not in a run
_more = bytearray(__HEAP__)
del _heap, _more
gc.collect()
gc.freeze()
sys.stdout.flush()
os.write(1, b"\0SNAP %d %d %d" % (id(_prepare), id(_run), id(())))
time.time()                                                    # the host throws here; these frames never return
raise SystemExit("the host did not take the snapshot")
