/**
 * `npm run packages`: makes `build/packages/{client,fleetctl}`, complete packages for npm, and packs them to
 * `build/packages/*.tgz`. Own packages are bundled into each, with their types, so that nothing refers to a workspace; what
 * is bundled of others is listed with its licences in a file of the package. `node tools/release/packages.mjs fleetctl` bundles only
 * the program of this clone.
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { bundledPackages } from '../bundle.mjs';
import { bundle, isFresh } from '../fleetctl/bin/bundle.mjs';
import { inlineText } from '../inline-text.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** Folders of the own packages with types for the published ones. */
const OWN = { client: 'libs/client', contracts: 'libs/contracts', base: 'libs/kits/base' };
const typesOf = (...names) => Object.fromEntries(names.map((name) => [name, `${OWN[name]}/dist`]));

/**
 * The published packages. `types`: folders of declarations by their place below `dist`; the first is the package's own.
 * `peers`: packages that stay imports and are needed for one entry point only.
 */
const PACKAGES = {
  client: {
    source: 'libs/client',
    entries: { index: 'libs/client/dist/index.js', nats: 'libs/client/dist/nats.js' },
    types: { '.': 'libs/client/dist', ...typesOf('contracts', 'base') },
    exports: ['index', 'nats'],
    peers: ['nats'],
  },
  fleetctl: {
    source: 'tools/fleetctl',
    entries: { index: 'tools/fleetctl/dist/index.js' },
    types: { '.': 'tools/fleetctl/dist', ...typesOf('client', 'contracts', 'base') },
    exports: ['index'],
    peers: [],
    bin: 'fleetctl',
  },
};

/** What CommonJS packages expect in a bundle. */
const COMMONJS = `import { createRequire as __toolfleetRequire } from 'node:module';
const require = __toolfleetRequire(import.meta.url);`;

const COMMAND = `#!/usr/bin/env node
import module from 'node:module';

module.enableCompileCache?.(); // Node 22 and later
const { main } = await import('../dist/index.js');
process.exitCode = await main(process.argv.slice(2));
`;

/** Bundles the code of a package: an entry point reaches only the code that is asked for. @returns esbuild's metafile */
async function bundlePackage(name, outdir) {
  const { entries, bin, peers } = PACKAGES[name];
  const missing = Object.values(entries).find((entry) => !existsSync(join(ROOT, entry)));
  if (missing) throw new Error(`${missing} is missing; run "npm run build" first`);
  const { metafile } = await build({
    entryPoints: Object.fromEntries(Object.entries(entries).map(([entry, path]) => [entry, join(ROOT, path)])),
    outdir,
    bundle: true,
    splitting: true,
    platform: bin ? 'node' : 'neutral',
    mainFields: ['module', 'main'],
    target: ['node20', 'es2022'],
    format: 'esm',
    keepNames: true,
    minifySyntax: Boolean(bin),
    minifyWhitespace: Boolean(bin),
    metafile: true,
    logLevel: 'error',
    absWorkingDir: ROOT,
    external: peers,
    plugins: [inlineText()],
    banner: bin ? { js: COMMONJS } : {},
  });
  return metafile;
}

/**
 * Makes `build/fleetctl`. The program of this clone runs it while it is newer than the output of tsc (`built.json`); then this does
 * nothing, because a running program still loads code from the folder. Another start may make it at the same time.
 */
export async function bundleFleetctl() {
  if (isFresh()) return;
  const outdir = fileURLToPath(bundle).replace(/\/$/, '');
  const made = `${outdir}.${process.pid}`;
  const { inputs } = await bundlePackage('fleetctl', made);
  const projects = new Set(Object.keys(inputs).flatMap((path) => /^(?:libs|tools)\/.*?(?=dist\/)/.exec(path) ?? []));
  const stamps = [...projects].map((project) => join(ROOT, project, 'dist/.tsbuildinfo'));
  const built = stamps.map((stamp) => [relative(outdir, stamp), statSync(stamp).mtimeMs]);
  writeFileSync(join(made, 'built.json'), JSON.stringify(Object.fromEntries(built)));
  const before = `${made}.before`;
  try {
    if (existsSync(outdir)) renameSync(outdir, before);
    renameSync(made, outdir);
  } catch (error) {
    if (!isFresh()) throw error;
  }
  for (const folder of [before, made]) rmSync(folder, { recursive: true, force: true });
}

/**
 * Makes and packs one package.
 * @param {keyof typeof PACKAGES} name
 * @param {{ into?: string, version?: string }} options folder for the package's folder and its archive; version other than
 *   the workspace's
 * @returns {Promise<{name: string, version: string, archive: string, files: string[]}>}
 */
export async function makePackage(name, { into = join(ROOT, 'build', 'packages'), version } = {}) {
  const made = PACKAGES[name];
  const folder = join(into, name);
  const manifest = readJson(join(ROOT, made.source, 'package.json'));
  if (version !== undefined) manifest.version = version;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, 'dist'), { recursive: true });
  const metafile = await bundlePackage(name, join(folder, 'dist'));
  copyTypes(made, join(folder, 'dist'));
  if (made.bin) {
    mkdirSync(join(folder, 'bin'));
    writeFileSync(join(folder, 'bin', `${made.bin}.mjs`), COMMAND);
    chmodSync(join(folder, 'bin', `${made.bin}.mjs`), 0o755);
  }
  writeThirdParty(metafile, folder);
  cpSync(join(ROOT, made.source, 'README.md'), join(folder, 'README.md'));
  cpSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(publishedManifest(made, manifest), null, 2)}\n`);
  const packed = spawnSync('npm', ['pack', '--json', '--silent', '--pack-destination', into], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (packed.status !== 0) throw new Error(`npm pack of ${manifest.name} failed: ${packed.stderr}`);
  const [{ filename, files }] = JSON.parse(packed.stdout);
  return {
    name: manifest.name,
    version: manifest.version,
    archive: join(into, filename),
    files: files.map((file) => file.path).toSorted(),
  };
}

/** The manifest users see: no workspace, no build scripts, types at every entry point. */
function publishedManifest(made, { name, version, description, license, dependencies }) {
  const place = (entry) => (entry === 'index' ? '.' : `./${entry}`);
  const entry = (file) => ({ types: `./dist/${file}.d.ts`, default: `./dist/${file}.js` });
  const manifest = {
    name,
    version,
    description,
    license,
    type: 'module',
    engines: { node: '>=20' },
    exports: Object.fromEntries(made.exports.map((file) => [place(file), entry(file)])),
    types: './dist/index.d.ts',
    files: ['bin', 'dist', 'THIRD-PARTY.md'],
    sideEffects: false,
  };
  if (made.bin) manifest.bin = { [made.bin]: `bin/${made.bin}.mjs` };
  if (made.peers.length > 0) {
    manifest.peerDependencies = Object.fromEntries(made.peers.map((peer) => [peer, `^${dependencies[peer]}`]));
    manifest.peerDependenciesMeta = Object.fromEntries(made.peers.map((peer) => [peer, { optional: true }]));
  }
  return manifest;
}

/** Copies the declarations that the entry points reach; imports of own packages become relative. */
function copyTypes(made, dist) {
  const places = Object.entries(made.types).map(([place, source]) => [join(ROOT, source), join(dist, place)]);
  const copyOf = (source) => {
    const [from, to] = places.find(([root]) => source.startsWith(root + sep));
    return join(to, relative(from, source));
  };
  const sources = new Set(Object.keys(made.entries).map((entry) => join(ROOT, made.types['.'], `${entry}.d.ts`)));
  // A set also yields members that are added meanwhile.
  for (const source of sources) {
    const target = copyOf(source);
    const text = readFileSync(source, 'utf8').replaceAll(
      /((?:from|import\()\s*)(['"])(@toolfleet\/|\.)([^'"]+)\2/g,
      (all, before, _quote, start, rest) => {
        if (start === '.') {
          sources.add(join(dirname(source), `.${rest}`.replace(/\.js$/, '.d.ts')));
          return all;
        }
        const [, name, subpath = ''] = /^([\w-]+)(\/[\w-]+)?$/.exec(rest) ?? [];
        if (OWN[name] === undefined) throw new Error(`${source} refers to a package that is not published`);
        const types = join(
          ROOT,
          OWN[name],
          readJson(join(ROOT, OWN[name], 'package.json')).exports[`.${subpath}`].types,
        );
        sources.add(types);
        const path = relative(dirname(target), copyOf(types)).replace(/\.d\.ts$/, '.js');
        return `${before}'${path.replace(/^(?!\.)/, './')}'`;
      },
    );
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n'));
  }
}

/** Names, versions and licences of the packages in the bundle. */
function writeThirdParty(metafile, folder) {
  const names = bundledPackages(metafile);
  if (names.size === 0) return;
  const parts = [...names].toSorted().map((name) => {
    const home = join(ROOT, 'node_modules', name);
    const { version, license } = readJson(join(home, 'package.json'));
    const file = readdirSync(home).find((each) => /^licen[cs]e/i.test(each));
    const text = file ? readFileSync(join(home, file), 'utf8').trim() : 'The package has no licence file.';
    return `## ${name} ${version} (${license})\n\n${text}\n`;
  });
  writeFileSync(join(folder, 'THIRD-PARTY.md'), `# Packages whose code is part of this one\n\n${parts.join('\n')}`);
}

/** Makes and packs all of them. */
export async function makePackages(options) {
  const made = [];
  for (const name of Object.keys(PACKAGES)) made.push(await makePackage(name, options));
  return made;
}

function readJson(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  if (process.argv[2] === 'fleetctl') await bundleFleetctl();
  else
    for (const { name, version, archive, files } of await makePackages())
      console.log(`${name} ${version}: ${relative(ROOT, archive)}, ${files.length} files`);
}
