# Compiles the sources below /packages to /data, from where the host takes the bytecode. Nothing of the packages is executed. Tests are
# left out: programs do not import them.
import importlib.util, os
from importlib._bootstrap_external import _code_to_hash_pyc
for _folder, _folders, _files in os.walk("/packages"):
    _folders[:] = [name for name in _folders if name not in ("tests", "test") and not name.endswith(".dist-info")]
    for _file in _files:
        if not _file.endswith(".py"): continue
        _path = f"{_folder}/{_file}"
        _target = importlib.util.cache_from_source(_path).replace("/packages/", "/data/", 1)
        try:
            with open(_path, "rb") as _source: _code = compile(_source.read(), _path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError): continue             # a template, or a file for another version of Python
        os.makedirs(os.path.dirname(_target), exist_ok=True)
        with open(_target, "wb") as _out: _out.write(_code_to_hash_pyc(_code, bytes(8), False))    # never checked: sources do not change
