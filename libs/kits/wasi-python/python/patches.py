# Patches for the differences between this build of CPython for WASI and what programs expect.
if time.process_time() > 3600:                                 # 1e7 times too large here; a start takes a second
    _process_time, _process_time_ns = time.process_time, time.process_time_ns
    time.process_time = lambda: _process_time() / 1e7
    time.process_time_ns = lambda: _process_time_ns() // 10 ** 7
if not hasattr(time, "thread_time"):
    time.thread_time, time.thread_time_ns = time.process_time, time.process_time_ns

class _AsyncioPatch:
    """asyncio needs a socket pair only to be woken by other threads. There are none here, so its loop sleeps instead."""
    def find_spec(self, name, path=None, target=None):
        if name != "asyncio": return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        spec.loader = _PatchingLoader(spec.loader)             # the original loader also serves other modules
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
            if timeout != 0 and _wake_awaiter(): return []     # a call that runs comes before timers, in every run
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

def _without_c(module, name):
    """The definition in Python that the library has for machines without the one in C."""
    import importlib.util
    c_module, sys.modules["_" + module] = sys.modules["_" + module], None
    try:
        spec = find_spec(module)
        copy = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(copy)
        return getattr(copy, name)
    finally: sys.modules["_" + module] = c_module

# A cached function that calls itself takes 8 KiB of the C stack for each call in C, so that fib(60) would overflow it. Calls in
# Python take none.
import functools
functools._lru_cache_wrapper = _without_c("functools", "_lru_cache_wrapper")

def _sizes():
    """`ctypes` for packages of pure Python: sizes of types (sympy). It has nothing that runs native code."""
    module = types.ModuleType("ctypes")
    for name, size in {"c_byte": 1, "c_short": 2, "c_int": 4, "c_long": 4, "c_longlong": 8, "c_size_t": 4, "c_void_p": 4, "c_float": 4, "c_double": 8}.items():
        setattr(module, name, type(name, (), {"size": size}))
    module.sizeof = lambda kind: kind.size
    return module

_ctypes = _sizes()
