# The guest's side of the level `strict` (src/python/strictness.ts): guidance for programs of pure computation, not a boundary.
# The program gets builtins without the banned names and a guarded import. Library code keeps the real builtins, so that
# dataclasses, namedtuple, Enum, logging and ElementTree work.
_BANNED = frozenset(_STRICT["banned"])
_strict_builtins = {name: value for name, value in vars(builtins).items() if name not in _BANNED}
_real_import = builtins.__import__

class PolicyError(Exception):
    """A module or builtin that `strict` does not allow."""

def _builtins_of(level, extra_modules):
    """The builtins of a run; each interpreter serves only one."""
    if level != "strict": return builtins
    modules = _STRICT["modules"] + extra_modules
    def allowed(name): return any(name == m or name.startswith(m + ".") for m in modules)
    def guarded_import(name, globals=None, locals=None, fromlist=(), depth=0):
        submodules = [f"{name}.{item}" for item in fromlist or ()]
        if depth == 0 and not allowed(name) and not (submodules and all(map(allowed, submodules))) and _has(name.split(".")[0]):
            raise PolicyError(f"module '{name}' is not allowed at strictness 'strict'. Allowed are {', '.join(modules)}.")
        return _real_import(name, globals, locals, fromlist, depth)
    _strict_builtins["__import__"] = guarded_import
    return _strict_builtins
