import { STRICTNESS_PY } from './strictness.py.js';

/**
 * The guest's side of a run. It is executed once, under `python -I -c`: it preloads modules, defines `_run`, writes
 * two object addresses and then calls `time.time()`, where the host throws and keeps the memory. Every execution later
 * enters at `_run` in a copy of this memory.
 *
 * Request on fd 0 and reply on `/dev/result` are the JSON of result-frame.ts. Kept as a template, so that the type
 * checker's build alone ships it; `String.raw` leaves the Python source as it reads here.
 */
const BOOT_PY = String.raw`
import sys, time, os
for _name in __PRELOAD__:
    try: __import__(_name)
    except ImportError: pass                                   # not in this build (uu): a run gets the usual error
from importlib.util import find_spec
import ast, builtins, gc, io, json, linecache, random, re, traceback, types
${STRICTNESS_PY}
_LEVELS = __LEVELS__
_encode = json.JSONEncoder(allow_nan=False).encode
_long_number = re.compile(r"\d{16}").search                    # compiled now: a run may break what compiling needs
_keep = []                                                     # what a run leaves stays alive: no __del__ after the answer
_RESERVED = {"args", "stdin", "files", "result"}
_LAST = "_the_last_expression"
_SAFE_INTEGER = 2 ** 53 - 1
_SESSION_BYTES = 1 << 20

def _send(frame):
    """Writes the one result frame to a device of the host, apart from the user's stdout."""
    data = _encode(frame).encode()
    fd = os.open("/dev/result", os.O_WRONLY)
    while data: data = data[os.write(fd, data):]
    os.close(fd)

def _receive():
    data = bytearray()
    while chunk := os.read(0, 1 << 20): data += chunk
    return json.loads(data)

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

def _describe(error, banned, level):
    kind, line = type(error).__name__, getattr(error, "lineno", None)
    name = getattr(error, "name", None)
    if isinstance(error, NameError) and name in banned:        # bound somewhere, used where it is not
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

def _evaluate(request, space, banned, modules):
    """Runs the program; its value is the global 'result', else that of a last expression."""
    source, level = request["code"], request["strictness"]
    tree = ast.parse(source, "<user>")
    if modules is not None: _check_tree(tree, level, modules, banned)
    if tree.body and isinstance(tree.body[-1], ast.Expr):      # its value is assigned, so that one compilation is enough
        last = tree.body[-1]
        name = ast.copy_location(ast.Name(_LAST, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([name], last.value), last)
    exec(compile(tree, "<user>", "exec", dont_inherit=True), space)
    value = space.pop(_LAST, None)
    return space["result"] if "result" in space else value

def _run():
    frame = {"kind": "ok"}
    try:
        request = _receive()
        random.seed()                                          # the generator's state in the image is shared by all runs
        source, level = request["code"], request["strictness"]
        rules = _LEVELS[level]
        banned = set(rules["banned"])
        modules = None if rules["modules"] is None else rules["modules"] + request["extra_modules"]
        linecache.cache["<user>"] = (len(source), None, source.splitlines(True), "<user>")
        main = types.ModuleType("__main__")
        space = main.__dict__
        _keep.append(main)
        sys.modules["__main__"] = main
        sys.argv = ["<user>"]
        sys.stdin = io.TextIOWrapper(io.BytesIO(request["stdin"].encode("utf-8", "surrogatepass")), "utf-8", "replace")
        if request["session"]: space.update(json.loads(request["session"]))
        space.update({"__builtins__": builtins if modules is None else _guarded_builtins(level, modules, banned),
                      "args": request["args"], "stdin": request["stdin"], "files": _files_of(request)})
        try:
            value = _evaluate(request, space, banned, modules)
            if value is not None: _put_value(frame, value)
        except SystemExit as error:
            frame["kind"], frame["exit_code"] = "exit", error.code if type(error.code) is int else 0 if error.code is None else 1
        except MemoryError as error:
            _reserve.clear()                                   # room for the answer
            described = _describe(error, banned, level)
            described["message"] = described["message"] or "the run needs more memory than its limit"
            frame = {"kind": "memory", "error": described}
        except BaseException as error:
            described = _describe(error, banned, level)
            frame = {"kind": "policy" if described["type"] == "PolicyError" else "error", "error": described}
        for stream in (sys.stdout, sys.stderr):
            try: stream.flush()
            except BaseException: pass
        if request["keep_session"] and frame["kind"] != "memory": frame["session"], frame["session_note"] = _session_of(space)
        _send(frame)
    except BaseException as error:                             # the answer itself failed: say so in the shortest way
        _reserve.clear()
        _send({"kind": "memory" if isinstance(error, MemoryError) else "crashed", "error": {"type": type(error).__name__, "message": "the result could not be written", "line": None, "traceback": ""}})

# --- quirks of this build -------------------------------------------------------------------------------------------

if time.process_time() > 3600:                                 # 1e7 times too large here; a start takes a second
    _process_time, _process_time_ns = time.process_time, time.process_time_ns
    time.process_time = lambda: _process_time() / 1e7
    time.process_time_ns = lambda: _process_time_ns() // 10 ** 7
if not hasattr(time, "thread_time"):
    time.thread_time, time.thread_time_ns = time.process_time, time.process_time_ns

class _AsyncioPatch:
    """asyncio needs a socket pair only to be woken by threads, and there are none: its loop sleeps instead."""
    def find_spec(self, name, path=None, target=None):
        if name != "asyncio": return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        spec.loader = _PatchingLoader(spec.loader)             # the loader itself serves the other modules too
        return spec

class _PatchingLoader:
    def __init__(self, loader): self._loader = loader
    def __getattr__(self, name): return getattr(self._loader, name)
    def create_module(self, spec): return self._loader.create_module(spec)
    def exec_module(self, module):
        self._loader.exec_module(module)
        _patch_asyncio(module)

def _patch_asyncio(asyncio):
    import selectors
    class Sleeper(selectors._BaseSelectorImpl):
        def select(self, timeout=None):
            if timeout is None: raise RuntimeError("nothing is left that could wake this event loop")
            if timeout > 0: time.sleep(timeout)
            return []
    class Loop(asyncio.SelectorEventLoop):
        def __init__(self): super().__init__(Sleeper())
        def _make_self_pipe(self): pass
        def _close_self_pipe(self): pass
        def _write_to_self(self): pass
    class Policy(asyncio.DefaultEventLoopPolicy):
        _loop_factory = Loop
    asyncio.set_event_loop_policy(Policy())

sys.meta_path.insert(0, _AsyncioPatch())

# --- the quiet point ------------------------------------------------------------------------------------------------

def _renamed(code):
    inner = tuple(_renamed(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_filename="<sandbox>", co_consts=inner)
_spaces = [globals(), vars(_AsyncioPatch), vars(_PatchingLoader)]
for _function in [f for space in _spaces for f in list(space.values()) if isinstance(f, types.FunctionType)]:
    _function.__code__ = _renamed(_function.__code__)          # told apart from the user's lines in a traceback
for _stream in (sys.stdout, sys.stderr):                       # by line: a run that is stopped keeps what it printed
    _stream.reconfigure(errors="backslashreplace", line_buffering=True)
_main = sys.modules["__main__"]                                # a run puts its own there
_reserve = bytearray(1 << 20)
_heap = [bytearray(1 << 16) for _ in range(64)]                # grow the heap now, not in a run
_more = bytearray(__HEAP__)
del _heap, _more
gc.collect()
gc.freeze()
sys.stdout.flush()
os.write(1, b"\0SNAP %d %d" % (id(_run), id(())))
time.time()                                                    # the host throws here; these frames never return
raise SystemExit("the host did not take the snapshot")
`;

export interface BootOptions {
  /** Imported before the snapshot. */
  preload: readonly string[];
  /** Lists of each level; null modules mean all. */
  levels: Readonly<Record<string, { modules: readonly string[] | null; bannedBuiltins: readonly string[] }>>;
  /** Bytes of heap to have ready, beside 4 MiB in small pieces. */
  heapBytes: number;
}

/** The boot script with its three placeholders filled in. */
export function bootScript(options: BootOptions): string {
  const levels = Object.fromEntries(
    Object.entries(options.levels).map(([level, rules]) => [
      level,
      { modules: rules.modules, banned: rules.bannedBuiltins },
    ]),
  );
  // JSON text inside a Python literal: parsed by json once it is imported, so that null and quotes need no care.
  const literal = (value: unknown) => `__import__("json").loads(${JSON.stringify(JSON.stringify(value))})`;
  return BOOT_PY.replace('__PRELOAD__', () => literal(options.preload))
    .replace('__LEVELS__', () => literal(levels))
    .replace('__HEAP__', () => String(options.heapBytes));
}
