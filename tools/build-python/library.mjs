/** The standard library shipped with the module: what works in the sandbox, with bytecode, so that no run compiles it. */
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { PYTHON, run } from './run.mjs';

/** Tests, tools, and modules without their C half: left out, importing them says that they are not available. */
const LEFT_OUT = new Set(
  `test unittest/test ctypes curses dbm distutils ensurepip idlelib lib2to3 msilib multiprocessing pydoc_data sqlite3
  tkinter turtledemo venv crypt.py lzma.py ssl.py turtle.py site-packages __pycache__`.split(/\s+/),
);

/** How the build describes itself, without the folder it happened in. */
const DESCRIBE = `
import pprint, runpy, sys
told = runpy.run_path(sys.argv[1])["build_time_vars"]
anywhere = {k: v.replace(sys.argv[2], "/build") if isinstance(v, str) else v for k, v in told.items()}
print("build_time_vars =", pprint.pformat(anywhere))`;

/** Rewrites `<to>/python3.11`. */
export function copyLibrary({ python, description, work, to }) {
  const library = join(to, 'python3.11');
  rmSync(library, { recursive: true, force: true });
  const source = join(python, 'Lib');
  const isWanted = (path) => !LEFT_OUT.has(relative(source, path)) && !path.endsWith('/__pycache__');
  cpSync(source, library, { recursive: true, filter: isWanted });
  // The guest looks for it at start and prints a warning without it; there are no modules to load from it.
  mkdirSync(join(library, 'lib-dynload'));
  // Debian's sysconfig asks for it under this name.
  writeFileSync(join(library, '_sysconfigdata__wasm32-wasi.py'), run(PYTHON, ['-c', DESCRIBE, description, work]));
  // Not checked against the source at run time, because its time is not kept in the guest's tree.
  const compiling = [
    '-m',
    'compileall',
    '-q',
    '--invalidation-mode',
    'unchecked-hash',
    '-s',
    to,
    '-p',
    '/usr/local/lib',
  ];
  run(PYTHON, [...compiling, library], { env: { PYTHONHASHSEED: '0' } });
}

/** Writes `<to>/python3.11/test`: the tests of this very source, for `npm run test:cpython`. */
export function copyTests({ python, to }) {
  const tests = join(to, 'python3.11/test');
  rmSync(tests, { recursive: true, force: true });
  cpSync(join(python, 'Lib/test'), tests, { recursive: true });
}
