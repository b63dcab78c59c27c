/**
 * Builds CPython for WASI from the sources of Debian 12 with its own compilers, optimised: the sandbox computes several
 * times as fast with it as with the packaged interpreter, compiled without optimisation.
 *
 *   npm run build:python [-- --any-version] [--out=FOLDER] [--sources=FOLDER]
 *
 * Runs on Debian 12, needs no root, takes some minutes. Says which packages are missing, and how to get them.
 * - `--out`: where `python.wasm`, `lib/python3.11` and the tests of CPython go; .toolfleet/python-wasi unless said otherwise.
 * - `--sources`: a folder with the unpacked sources of python3.11, zlib and bzip2, instead of fetching them.
 * - `--any-version`: build with the versions this system has and not with packages.mjs's; the digest differs then.
 *
 * The same versions give the same bytes, in whatever folder and however often: the digest is compared with DIGEST.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { compile } from './compile.mjs';
import { copyLibrary, copyTests } from './library.mjs';
import { checkTools, fetchSources } from './packages.mjs';

/** SHA-256 of the interpreter by the versions of packages.mjs and the flags of compile.mjs. */
const DIGEST = 'a41ab382ab48fa6a0ac0483835abd302bd7fe5dc56df52a54515162759d783dd';

const root = fileURLToPath(new URL('../../', import.meta.url));
const { values } = parseArgs({
  options: {
    out: { type: 'string', default: join(root, '.toolfleet/python-wasi') },
    sources: { type: 'string' },
    'any-version': { type: 'boolean', default: false },
  },
});
const out = resolve(values.out);
const anyVersion = values['any-version'];

try {
  build();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}

function build() {
  checkTools({ anyVersion });
  mkdirSync(out, { recursive: true });
  const sources = values.sources ? resolve(values.sources) : fetchSources(join(out, 'sources'), { anyVersion });
  const work = mkdtempSync(join(out, 'work-'));
  try {
    const { python, description } = compile({ sources, work, wasm: join(out, 'python.wasm') });
    copyLibrary({ python, description, work, to: join(out, 'lib') });
    copyTests({ python, to: join(out, 'tests') });
    report();
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function report() {
  const wasm = join(out, 'python.wasm');
  const digest = createHash('sha256').update(readFileSync(wasm)).digest('hex');
  console.log(`
sha256 ${digest}  ${wasm}
${digest === DIGEST ? 'That is the known digest.' : `The pinned versions give ${DIGEST}: others were used.`}

To run the fleet on it, to measure and to test it:
  export PYTHON_WASI_WASM_PATH=${wasm} PYTHON_WASI_STDLIB_PATH=${join(out, 'lib')}
  npm start
  npm run bench:sandbox
  npm test -- libs/kits/wasi-python apps/python-sandbox
  npm run test:cpython`);
}
