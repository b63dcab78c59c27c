# One sentence for errors that come from the nature of the sandbox: what works instead, with names that exist here.
_INSTEAD = {
    "numpy": "math statistics array fractions random", "scipy": "math statistics fractions", "sympy": "fractions math decimal",
    "pandas": "csv json sqlite3 statistics collections", "polars": "csv json sqlite3 statistics", "sklearn": "statistics math random",
    "matplotlib": "", "seaborn": "", "plotly": "", "PIL": "", "cv2": "", "yaml": "json tomllib configparser", "bs4": "html.parser xml.etree.ElementTree re",
    "lxml": "xml.etree.ElementTree html.parser", "openpyxl": "csv zipfile xml.etree.ElementTree", "dateutil": "datetime zoneinfo", "pytz": "zoneinfo datetime",
    "regex": "re", "simplejson": "json", "orjson": "json", "tabulate": "textwrap string", "psycopg2": "sqlite3", "sqlalchemy": "sqlite3", "duckdb": "sqlite3 csv",
}
_PICTURES = {"matplotlib", "seaborn", "plotly", "PIL", "cv2"}
_NETWORK = {"requests", "httpx", "aiohttp", "urllib3", "boto3", "websockets", "selenium", "playwright", "openai", "paramiko", "_ssl", "ssl"}
_TASKS = {"concurrent.futures.thread", "concurrent.futures.process", "_multiprocessing", "_posixsubprocess", "_posixshmem", "multiprocessing", "fcntl", "termios", "pty", "curses", "_curses"}
_NO_NETWORK = "There is no network here: pass data as args, files or stdin."
_NO_TASKS = "Threads and processes cannot be started here: use a loop, or asyncio for work that waits."

def _has(module):
    try: return module in sys.modules or find_spec(module) is not None
    except Exception: return False

def _also(): return f"and the {'packages' if _packages[1:] else 'package'} {', '.join(_packages)} " if _packages else ""

def _library(name):
    """What to import instead of a module that is not here."""
    top = name.split(".")[0]
    if name in _TASKS or top in _TASKS: return _NO_TASKS
    if top in _NETWORK: return _NO_NETWORK
    if top in _PICTURES: return "Packages with native code cannot be loaded: write a picture as text, such as an SVG file in the working directory."
    known = [module for module in _INSTEAD.get(top, "").split() if _has(module)]
    if not known: known = [module for module in difflib.get_close_matches(top, sys.stdlib_module_names, 3, 0.7) if _has(module) and module[0] != "_"]
    names = f", for example {' and '.join([', '.join(known[:-1]), known[-1]] if len(known) > 1 else known)}" if known else ""
    return f"The standard library of Python {sys.version_info[0]}.{sys.version_info[1]} {_also()}can be imported{names}; packages with native code cannot be loaded."

def _files_here():
    names = sorted(os.listdir(_FOLDER))
    here = f"has {', '.join(names[:10])}{', …' if len(names) > 10 else ''}" if names else "is empty: pass files as the argument files"
    return f"Only {_FOLDER} and /tmp can be used for files, and the working directory {_FOLDER} {here}."

def _advice(error, text, modules):
    """A sentence, or None. `modules` are the names of the files of the library in which the error was raised."""
    if isinstance(error, ModuleNotFoundError) and error.name: return _library(error.name)
    if isinstance(error, SyntaxError):
        if re.match(r"\s*(?:[!%]|(?:pip3?|python3?|apt|npm) )", error.text or ""): return "Only Python runs here: shell commands, magics and installations do not."
        return None
    if isinstance(error, NameError) and getattr(error, "name", None) in _BANNED and hasattr(builtins, error.name): return "Leave out strictness to use it."
    if "_socket" in text or modules & {"socket.py", "ssl.py"} or type(error).__name__ == "URLError": return _NO_NETWORK
    if "start new thread" in text or "support processes" in text or re.search(r"no attribute '(?:fork|system|kill|popen|spawn\w*|exec\w*)'", text): return _NO_TASKS
    if isinstance(error, EOFError) and "reading a line" in text: return "input() reads the lines of the argument stdin, and there are no more."
    if not isinstance(error, OSError): return None
    if error.errno == errno.EROFS: return f"Only {_FOLDER}, the working directory, and /tmp can be written."
    if error.errno == errno.ENOSPC: return "Files are in memory and count to the limit of the run."
    if isinstance(error, FileNotFoundError) or error.errno == errno.ENOTCAPABLE: return _files_here()
    return None
