# Checks packages for this interpreter: their metadata allow its version, and everything that they require is among them, for the same
# tenants (PEP 440, PEP 508). `args` has {name, version, metadata, tenants} of each; the result is a list of faults.
import ast, email, math, operator, os, platform, re, sys

_VERSION = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|rc|c)[-_.]?(\d*))?(?:-(\d+)|[-_.]?(?:post|rev|r)[-_.]?(\d*))?"
    r"(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+[a-z0-9._-]+)?", re.I)
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[([^]]*)\])?\s*\(?([^;()@]*?)\)?\s*(?:;(.*))?", re.S)
_SYMBOLS = {ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!=", ast.GtE: ">=", ast.Gt: ">"}
_COMPARE = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt}
_FINAL = 3                                                     # after alpha, beta and candidate

class Fault(Exception): pass

def normal(name): return re.sub(r"[-_.]+", "-", name.strip()).lower()

def parsed(text):
    """A version as its release, with the epoch, and its order within the release. Local parts do not count."""
    found = _VERSION.fullmatch(text.strip())
    if not found: raise ValueError(f"not a version: {text}")
    epoch, numbers, phase, pre, implicit, post, dev, number = found.groups()
    release = [int(epoch or 0), *map(int, numbers.split("."))]
    while release[1:] and not release[-1]: release.pop()
    if implicit is not None: post = implicit
    order = {"a": 0, "b": 1}.get(phase[0].lower(), 2) if phase else -1 if dev and post is None else _FINAL
    return release, (order, int(pre or 0), -1 if post is None else int(post or 0), int(number or 0) if dev else math.inf)

def starts(version, prefix):
    numbers = [int(part) for part in re.match(r"(?:\d+!)?([\d.]*\d)", prefix)[1].split(".")]
    return (version[0][1:] + [0] * len(numbers))[:len(numbers)] == numbers

def is_early(version): return version[1][0] < _FINAL or version[1][3] != math.inf

def meets(text, specifier):
    """True if a version meets every clause, such as `>=1.1.0,<1.4`."""
    return all(_meets(text, clause.strip()) for clause in specifier.split(",") if clause.strip())

def _meets(text, clause):
    symbol, wanted = re.fullmatch(r"(===|~=|[=!<>]=|[<>])\s*(\S+)", clause).groups()
    if symbol == "===": return text == wanted
    version = parsed(text)
    if wanted.endswith(".*"): return starts(version, wanted[:-2]) == (symbol == "==")
    limit = parsed(wanted)
    if symbol == "~=": return version >= limit and starts(version, re.match(r"(?:\d+!)?[\d.]*\d", wanted)[0].rpartition(".")[0])
    if version[0] == limit[0]:                                 # `<2` has no candidate of 2, and `>2` no post-release
        if symbol == "<" and is_early(version) and not is_early(limit): return False
        if symbol == ">" and version[1][2] >= 0 and limit[1][2] < 0: return False
    return _COMPARE[symbol](version, limit)

def holds(marker, extra):
    """Whether a marker holds here. One is an expression of Python."""
    python = platform.python_version()
    names = {
        "python_version": ".".join(python.split(".")[:2]), "python_full_version": python, "implementation_version": python,
        "implementation_name": sys.implementation.name, "platform_python_implementation": platform.python_implementation(),
        "os_name": os.name, "sys_platform": sys.platform, "platform_system": platform.system(), "platform_machine": platform.machine(),
        "platform_release": platform.release(), "platform_version": platform.version(), "extra": extra}
    def value(node):
        if isinstance(node, ast.BoolOp): return (all if isinstance(node.op, ast.And) else any)([value(part) for part in node.values])
        if isinstance(node, ast.Constant): return node.value
        if isinstance(node, ast.Name): return names[node.id]
        left, right, kind = value(node.left), value(node.comparators[0]), type(node.ops[0])
        if kind in (ast.In, ast.NotIn): return (left in right) == (kind is ast.In)
        try: return _meets(left, _SYMBOLS[kind] + right)
        except (ValueError, AttributeError): return _COMPARE[_SYMBOLS[kind]](left, right)
    return not marker or value(ast.parse(marker.strip(), mode="eval").body)

def needed(one, extra, known):
    """The packages that one requires with an extra, and the extras that it requires of them."""
    about = email.message_from_string(one["metadata"])
    python, allowed = platform.python_version(), about.get("Requires-Python", "")
    if not meets(python, allowed): raise Fault(f"requires Python {allowed}; the interpreter is {python}")
    for line in about.get_all("Requires-Dist", []):
        try:
            name, extras, specifier, marker = _REQUIREMENT.fullmatch(line.strip()).groups("")
            if not holds(marker, extra): continue
            found = known.get(normal(name))
            is_met = found is None or meets(found["version"], specifier)
        except Exception: raise Fault(f"has a requirement that cannot be read: {line}") from None
        wanted = f"requires {normal(name)} {specifier}".strip()
        if found is None: raise Fault(f"{wanted}, which python_packages lacks")
        if not is_met: raise Fault(f"{wanted}; python_packages has {found['version']}")
        if found["tenants"] is not None and not set(one["tenants"] or [""]) <= set(found["tenants"]):
            raise Fault(f"{wanted}, which is for fewer tenants")
        yield from ((found, normal(part)) for part in extras.split(",") if part.strip())

def faults(packages):
    known = {one["name"]: one for one in packages}
    todo, seen = [(one, "") for one in packages], set()
    for one, extra in todo:                                    # grows on the way
        if (one["name"], extra) in seen: continue
        seen.add((one["name"], extra))
        try: todo.extend(needed(one, extra, known))
        except Fault as fault: yield f"{one['name']} {one['version']} {fault}"
        except Exception: yield f"{one['name']} {one['version']} has metadata that cannot be read"

result = list(faults(args))
