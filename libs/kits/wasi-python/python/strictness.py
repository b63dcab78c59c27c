# The guest's side of the strictness levels (src/python/strictness.ts): guidance for generated code, not a boundary.
#
# A pass over the syntax tree refuses a program before it runs, with a line number. At run time the program gets builtins
# without the banned names and a guarded import. Library code keeps the real builtins, so that dataclasses, namedtuple,
# Enum, logging and ElementTree work.
_BANNED = {level: frozenset(rules["banned"]) for level, rules in _LEVELS.items()}
_BUILTINS = {level: {name: value for name, value in vars(builtins).items() if name not in names} for level, names in _BANNED.items()}
_real_import = builtins.__import__

class PolicyError(Exception):
    lineno = None

def _allowed(name, modules):
    return any(name == m or name.startswith(m + ".") for m in modules)

def _refuse(message, lineno=None):
    error = PolicyError(message)
    error.lineno = lineno
    raise error

def _module_refused(name, level, lineno=None):
    try: exists = name.split(".")[0] in sys.modules or find_spec(name.split(".")[0]) is not None
    except Exception: exists = True
    if not exists: _refuse(f"module '{name}' is not available in this sandbox", lineno)
    _refuse(f"module '{name}' is not allowed at strictness '{level}'", lineno)

def _builtin_refused(name, level, lineno=None):
    _refuse(f"builtin '{name}' is not allowed at strictness '{level}'", lineno)

def _imports(node):
    """(module, as shown) of every module an import statement asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []

def _check(source, tree, level, modules):
    """Refuses a program that uses what is not allowed. ASCII source contains every name literally, so it can be searched first."""
    if source.isascii() and "import" not in source:
        for name in _BANNED[level]:
            if name in source: break
        else: return
    _check_tree(tree, level, modules)

def _check_tree(tree, level, modules):
    banned = _BANNED[level]
    bound = set()                      # a program may use a banned name for its own variable
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load): bound.add(node.id)
        elif isinstance(node, ast.arg): bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): bound.add(node.name)
        elif isinstance(node, ast.alias): bound.add(node.asname or node.name.split(".")[0])
    refused = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in banned and node.id not in bound:
            refused.append((node.lineno, _builtin_refused, node.id))
        for name in _imports(node):
            submodules = [f"{name}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            if not _allowed(name, modules) and not (submodules and all(_allowed(s, modules) for s in submodules)):
                refused.append((node.lineno, _module_refused, name))
    for lineno, refuse, name in sorted(refused, key=lambda r: r[0])[:1]:
        refuse(name, level, lineno)

def _guarded_builtins(level, modules):
    """The builtins of a run; each interpreter serves only one."""
    def guarded_import(name, globals=None, locals=None, fromlist=(), depth=0):
        if depth == 0 and not _allowed(name, modules):
            submodules = [f"{name}.{item}" for item in fromlist or ()]
            if not submodules or not all(_allowed(s, modules) for s in submodules):
                _module_refused(name, level)
        return _real_import(name, globals, locals, fromlist, depth)
    names = _BUILTINS[level]
    names["__import__"] = guarded_import
    return names
