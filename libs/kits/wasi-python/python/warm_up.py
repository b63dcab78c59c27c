# Executes typical programs at boot, so that the image contains what CPython creates at first use: the types of the syntax
# tree, attribute caches, specialized bytecode. A first `print(1)` takes a fifth less. No user code is involved, and the
# names used here are deleted afterwards.
_ROUNDS = 6
_PROGRAMS = (
    "print(1)",
    "import json, re\nrows = [1, 2]\nfor row in rows:\n    print(row)\nsum(rows)",
    "result = {'a': [1, None, 'b']}",
    "def f(): return 1 / 0\nf()",
    "x =",
)
for _ in range(_ROUNDS):
    _prepare()
    for _level in ("standard", "strict"):
        for _source in _PROGRAMS:
            _program = types.ModuleType("__main__")
            _asked = {"code": _source, "args": None, "stdin": "", "strictness": _level, "session": None, "files": {}, "extra_modules": [], "packages": [], "keep_session": _level == "standard"}
            _send(_answer(marshal.loads(marshal.dumps(_asked))))
linecache.cache.clear()
del _ROUNDS, _PROGRAMS, _level, _source, _asked
