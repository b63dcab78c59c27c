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
import ast, builtins, difflib, errno, gc, io, json, linecache, marshal, random, re, textwrap, traceback, types
_STRICT = __STRICT__
_FOLDER = "/data"                                              # of the run: its working directory
_PACKAGES = "/packages"
_packages = []                                                 # names of those that the run can import
# include: strictness.py
# include: advice.py
_encode = json.JSONEncoder(allow_nan=False).encode
_RESERVED = {"args", "stdin", "files", "result"}
_LAST = "_the_last_expression"
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
def _put_value(frame, value):
    """JSON when it is JSON and survives the trip; NaN, infinities and all else as repr."""
    try:
        _encode(value)
        frame["value"] = value
    except (TypeError, ValueError, RecursionError, OverflowError):
        try:
            html = type(value)._repr_html_(value)              # as notebooks do: tables, pictures
            if isinstance(html, str) and len(html) <= 1 << 20: frame["html"] = html
        except Exception: pass
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
    kind, line, modules = type(error).__name__, getattr(error, "lineno", None), set()
    name = getattr(error, "name", None)
    if level == "strict" and isinstance(error, NameError) and name in _BANNED:
        kind, error_text = "PolicyError", f"builtin '{name}' is not allowed at strictness 'strict'"
    elif type(error) is ModuleNotFoundError and name:
        error_text = f"module '{name}' is not available in this sandbox"
    else:
        try: error_text = str(error)
        except BaseException: error_text = "<the error has no readable message>"
    tb, last = error.__traceback__, None                       # may be a million long: no list of it
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if _own(file): last, modules = tb, set()
        else: modules.add(file.rpartition("/")[2])
        tb = tb.tb_next
    if last is not None: line = last.tb_lineno
    try:
        summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=-20, compact=True)
        _own_frames(summary, set())
        trace = "".join(summary.format())
    except BaseException as failure:
        trace = f"<no traceback: {type(failure).__name__}>"
    try: advice = _advice(error, error_text, modules)
    except Exception: advice = None
    if advice:
        error_text = f"{error_text[:1500].removesuffix('.')}. {advice}"
        trace = f"{trace}{advice}\n"
    return {"type": kind, "message": error_text[:2000], "line": line if type(line) is int else None, "traceback": trace[-8000:]}

def _files_of(request):
    """The files of the call as values; they are also in the folder of the run."""
    files = {}
    for name, is_text in request["files"].items():
        with io.open(f"{_FOLDER}/{name}", "rb") as file: data = file.read()
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

_fence = re.compile(r"^[ \t]*(```+|~~~+)[^\n`]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.M | re.S)

def _show(source):
    """Sets the lines that tracebacks show."""
    linecache.cache["<user>"] = (len(source), None, source.splitlines(True), "<user>")

def _parse(source):
    """The syntax tree. A program in one Markdown fence, or indented as a whole, keeps its line numbers."""
    try: return ast.parse(source, "<user>")
    except SyntaxError:
        fences = list(_fence.finditer(source))
        plain = "\n" * source.count("\n", 0, fences[0].start(2)) + fences[0][2] if len(fences) == 1 else source
        plain = textwrap.dedent(plain)
        if plain == source: raise
    _show(plain)
    return ast.parse(plain, "<user>")

_assignment = ast.parse(_LAST + " = 0").body[0]                 # one that is ready costs less than making one
def _evaluate(source, space, program):
    """Runs the program; its value is the global 'result', else that of a last expression."""
    tree = _parse(source)
    if program is not None: tree = ast.fix_missing_locations(_StartInGather().visit(tree))
    if tree.body and isinstance(tree.body[-1], ast.Expr):      # its value is assigned, so that one compilation is enough
        _assignment.value = tree.body[-1].value
        tree.body[-1] = _assignment
    code = compile(tree, "<user>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & _COROUTINE: _run_awaiting(code, space)
    else: exec(code, space)
    if program is not None: _await_started()
    value = space.pop(_LAST, None)
    return space["result"] if "result" in space else value

def _input_of(text):
    return io.TextIOWrapper(io.BytesIO(text.encode("utf-8", "surrogatepass")), "utf-8", "replace")

def _put_exit(frame, code):
    """As CPython does: a text is printed and means 1."""
    frame["kind"], frame["exit_code"] = "exit", int(code) if isinstance(code, int) else 0 if code is None else 1
    if code is None or isinstance(code, int): return
    print(code, file=sys.stderr)
    frame["error"] = {"type": "SystemExit", "message": f"the program exited with code 1: {code}"[:2000]}

def _mount(packages):
    _packages.extend(packages)
    sys.path.insert(-1, _PACKAGES)                             # after the library, before the files of the call
    sys.modules["ctypes"] = _ctypes

def _answer(request):
    """The frame of one program."""
    frame = {"kind": "ok"}
    if request["packages"]: _mount(request["packages"])
    source, level = request["code"].removeprefix("\ufeff"), request["strictness"]
    _show(source)
    space = _program.__dict__
    if request["stdin"]: sys.stdin = _input_of(request["stdin"])
    if request["session"]: space.update(json.loads(request["session"]))
    space["__builtins__"] = _builtins_of(level, request["extra_modules"])
    space["args"] = json.loads(request["args"]) if request["args"] else None
    space["stdin"], space["files"] = request["stdin"], _files_of(request)
    program = request.get("program")
    if program is not None: space.update(_program_names(program))
    try:
        value = _evaluate(source, space, program)
        if value is not None: _put_value(frame, value)
    except SystemExit as error:
        try: _put_exit(frame, error.code)
        except BaseException: frame["kind"], frame["exit_code"] = "exit", 1
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
os.chdir(_FOLDER)
sys.path.append(_FOLDER)                                       # last: a file of a call replaces no module of the library
sys.dont_write_bytecode = True                                 # a module among the files leaves nothing in the folder
_heap = [bytearray(1 << 16) for _ in range(64)]                # grow the heap now, not in a run
_more = bytearray(__HEAP__)
del _heap, _more
gc.collect()
gc.freeze()
sys.stdout.flush()
os.write(1, b"\0SNAP %d %d %d" % (id(_prepare), id(_run), id(())))
time.time()                                                    # the host throws here; these frames never return
raise SystemExit("the host did not take the snapshot")
