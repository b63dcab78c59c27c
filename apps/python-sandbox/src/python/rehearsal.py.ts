/**
 * Runs at boot what every run does, so that the image has all that CPython makes at first use: the types of the syntax
 * tree, caches of attributes, specialised bytecode. A first `print(1)` takes a fifth less for it. Nothing of the user's
 * is in it, and what it leaves behind is taken away. Kept as a template like boot.py.ts, of which it is a part.
 */
export const REHEARSAL_PY = String.raw`
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
    for _level in _LEVELS:
        for _source in _PROGRAMS:
            _program = types.ModuleType("__main__")
            _asked = {"code": _source, "args": None, "stdin": "", "strictness": _level, "session": None, "files": {}, "extra_modules": [], "keep_session": _level == "lenient"}
            _send(_answer(marshal.loads(marshal.dumps(_asked))))
linecache.cache.clear()
del _ROUNDS, _PROGRAMS, _level, _source, _asked
`;
