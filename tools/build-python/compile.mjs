/** From the sources to one `python.wasm`: the libraries CPython wants, CPython itself, and a last optimisation. */
import { copyFileSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { findSource } from './packages.mjs';
import { PYTHON, run } from './run.mjs';

const CC = ['clang-16', '--target=wasm32-wasi'];
/** Bulk memory and vectors stay off, as is the default: writes of such instructions could not be followed. */
const OPTIMISED = ['-O3', '-g0'];
/** Twice the usual: nested calls of C end in a RecursionError then and not in a trap. The rest is CPython's own. */
const STACK_BYTES = 1024 * 1024;

const LIBRARIES = [
  {
    source: 'zlib',
    archive: 'libz.a',
    files: 'adler32 compress crc32 deflate infback inffast inflate inftrees trees uncompr zutil',
  },
  { source: 'bzip2', archive: 'libbz2.a', files: 'blocksort bzlib compress crctable decompress huffman randtable' },
];

/** Modules with missing requirements, though configure would find it or guess so. */
const LEFT_OUT = ['_lzma', '_uuid', '_crypt'];

/**
 * Compiles into `work`, an empty folder, and writes `wasm`. Answers with the source of CPython and the file in which the
 * build describes itself (`_sysconfigdata…`).
 */
export function compile({ sources, work, wasm }) {
  const found = (name) => {
    const folder = findSource(sources, name);
    if (!folder) throw new Error(`${sources} has no source of ${name}`);
    console.log(`source ${basename(folder)}`);
    return folder;
  };
  // Always the same names in the same places: paths are written into the interpreter.
  const python = found('python3.11');
  symlinkSync(python, join(work, 'python'));
  for (const { source } of LIBRARIES) symlinkSync(found(source), join(work, source));
  const env = {
    SOURCE_DATE_EPOCH: run('dpkg-parsechangelog', ['-S', 'Timestamp'], { cwd: python }).trim(),
    LC_ALL: 'C',
    TZ: 'UTC',
  };
  for (const library of LIBRARIES) archive(library, work, env);

  const build = join(work, 'build');
  mkdirSync(build);
  console.log('configure …');
  run('../python/configure', configureArguments(python), { cwd: build, env: { ...env, ...configureSettings() } });
  console.log('make …');
  const settings = ['EXTRA_CFLAGS=-Wno-int-conversion', `LDFLAGS_NODIST=-Wl,-z,stack-size=${STACK_BYTES}`];
  run('make', [`-j${availableParallelism()}`, ...settings, 'python.wasm', 'pybuilddir.txt'], { cwd: build, env });
  console.log('wasm-opt …');
  run('wasm-opt', ['-O3', '--strip-debug', '--strip-producers', 'python.wasm', '-o', 'optimised.wasm'], { cwd: build });
  copyFileSync(join(build, 'optimised.wasm'), wasm);
  const described = readFileSync(join(build, 'pybuilddir.txt'), 'utf8').trim();
  return { python, description: join(build, described, '_sysconfigdata__wasi_wasm32-wasi.py') };
}

function archive({ source, archive: name, files }, work, env) {
  const folder = join(work, `${source}-build`);
  mkdirSync(folder);
  for (const file of files.split(' ')) {
    run(CC[0], [...CC.slice(1), ...OPTIMISED, '-w', '-c', `../${source}/${file}.c`, '-o', `${file}.o`], {
      cwd: folder,
      env,
    });
  }
  run('llvm-ar-16', ['rcsD', name, ...files.split(' ').map((file) => `${file}.o`)], { cwd: folder, env });
}

const configureArguments = (python) => [
  '--host=wasm32-unknown-wasi',
  `--build=${run(join(python, 'config.guess'), []).trim()}`,
  `--with-build-python=${PYTHON}`,
  '--disable-test-modules',
  // The allocator of small objects, off by default on WASI.
  '--with-pymalloc',
];

const configureSettings = () => ({
  CC: CC.join(' '),
  CFLAGS: OPTIMISED.join(' '),
  LD: 'wasm-ld-16',
  AR: 'llvm-ar-16',
  RANLIB: 'llvm-ranlib-16',
  CONFIG_SITE: '../python/Tools/wasm/config.site-wasm32-wasi',
  PKG_CONFIG: 'false', // it would tell of the libraries of this machine
  ZLIB_CFLAGS: '-I../zlib',
  ZLIB_LIBS: '-L../zlib-build -lz',
  BZIP2_CFLAGS: '-I../bzip2',
  BZIP2_LIBS: '-L../bzip2-build -lbz2',
  ...Object.fromEntries(LEFT_OUT.map((name) => [`py_cv_module_${name}`, 'n/a'])),
});
