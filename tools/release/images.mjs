/**
 * `npm run images -- [--base <image>] [app …]`: the part of a release that needs no container engine, for each image. Bundles the service
 * (`build/<app>`), packs it as the layer of the image with fixed times and owners, and writes to `build/images/<app>`:
 * `layer.tar.gz`; `plan.json`, the base, layers and configuration by deploy/app.Dockerfile; `sbom.cdx.json`, the packages in it
 * (CycloneDX 1.6). The workflow `release` builds the image by the same Dockerfile and signs it with this SBOM; it names the base image
 * with its digest (`npm run deploy:pin -- --base`), and `--base` without one is refused.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { APPS, bundle } from '../bundle.mjs';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const readJson = (path) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
const sha256 = (bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/**
 * Packs a folder as a layer: the same files make the same bytes, at any time and for any user.
 * @returns {{ digest: string, bytes: number, files: { path: string, bytes: number }[] }} digest of the compressed layer
 */
export function packLayer(folder, archive) {
  const flags = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX'];
  const packed = spawnSync('tar', [...flags, '--transform=s,^\\.,app,', '-cf', '-', '-C', folder, '.'], {
    maxBuffer: 2 ** 30,
  });
  if (packed.status !== 0) throw new Error(`tar failed: ${packed.stderr}`);
  // Without the name and time that gzip keeps.
  const compressed = spawnSync('gzip', ['-n'], { input: packed.stdout, maxBuffer: 2 ** 30 });
  if (compressed.status !== 0) throw new Error(`gzip failed: ${compressed.stderr}`);
  writeFileSync(archive, compressed.stdout);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path: `/app/${relative(folder, path)}`, bytes: statSync(path).size }));
  return { digest: sha256(compressed.stdout), bytes: compressed.stdout.length, files };
}

/** Platforms of every image: nothing in a bundle depends on them but the driver of SQLite with a file for each. */
export const PLATFORMS = ['linux/amd64', 'linux/arm64'];

const PINNED = /^[^@\s]+:[^@\s]+@sha256:[0-9a-f]{64}$/;

/** The base image of a release. @throws Error unless it is named by tag and digest, because a tag can be moved */
export function releaseBase(image) {
  if (!PINNED.test(image)) throw new Error(`--base ${image} has no digest; see npm run deploy:pin -- --base`);
  return image;
}

/** Configuration of an image by the last stage of deploy/app.Dockerfile. */
export function imageConfig(app) {
  const text = readFileSync(join(ROOT, 'deploy/app.Dockerfile'), 'utf8').replaceAll('\\\n', ' ');
  const base = /^ARG NODE_IMAGE=(\S+)/m.exec(text)[1];
  const lines = text.slice(text.lastIndexOf('\nFROM ')).split('\n');
  const of = (instruction) =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length).trim());
  const pairs = (list) =>
    Object.fromEntries(
      list.flatMap((line) =>
        [...line.matchAll(/([\w.]+)=("[^"]*"|\S+)/g)].map(([, key, value]) => [
          key,
          value.replaceAll('"', '').replaceAll('${APP}', app),
        ]),
      ),
    );
  return {
    base,
    user: of('USER').at(-1),
    workingDir: of('WORKDIR').at(-1),
    entrypoint: JSON.parse(of('ENTRYPOINT').at(-1)),
    environment: pairs(of('ENV')),
    labels: pairs(of('LABEL')),
    directories: of('RUN').flatMap((line) => /^mkdir -m \d+ ([^&]+)/.exec(line)?.[1].trim().split(' ') ?? []),
  };
}

/**
 * The bill of materials of a service.
 * @param {string[]} packages names of the npm packages in the bundle
 * @param {string} [image] the base image; the Dockerfile's unless given
 * @returns {object} a CycloneDX 1.6 document
 */
export function billOfMaterials(app, packages, image = imageConfig(app).base) {
  const { version } = readJson('package.json');
  const lock = readJson('package-lock.json').packages;
  const components = packages.map((name) => {
    const entry = lock[`node_modules/${name}`];
    if (entry === undefined) throw new Error(`${name} is in the bundle of ${app} and not in package-lock.json`);
    const [, algorithm, base64] = /^(sha\d+)-(.+)$/.exec(entry.integrity ?? '') ?? [];
    return {
      type: 'library',
      name,
      version: entry.version,
      purl: `pkg:npm/${name.replace('@', '%40')}@${entry.version}`,
      'bom-ref': `${name}@${entry.version}`,
      licenses: entry.license ? [{ expression: entry.license }] : undefined,
      hashes: base64
        ? [{ alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(base64, 'base64').toString('hex') }]
        : undefined,
    };
  });
  const [, base, tag, digest] = /^(.+?):([^:@/]+)(?:@sha256:(\w+))?$/.exec(image);
  const container = {
    type: 'container',
    name: base,
    version: tag,
    'bom-ref': image,
    hashes: digest ? [{ alg: 'SHA-256', content: digest }] : undefined,
  };
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', name: `toolfleet/${app}`, version, 'bom-ref': app } },
    components: [...components, container],
    dependencies: [{ ref: app, dependsOn: [...components.map((each) => each['bom-ref']), image] }],
  };
}

/** Bundles one service and writes its layer, plan and bill of materials. @returns what `plan.json` holds */
export async function prepareImage(app, image = imageConfig(app).base, into = join(ROOT, 'build/images', app)) {
  const { outdir, packages } = await bundle(app);
  mkdirSync(into, { recursive: true });
  const layer = packLayer(outdir, join(into, 'layer.tar.gz'));
  const { directories, ...config } = { ...imageConfig(app), base: undefined };
  const plan = {
    image: `toolfleet/${app}`,
    base: image,
    platforms: PLATFORMS,
    layers: [layer, { directories }],
    config,
  };
  writeFileSync(join(into, 'plan.json'), `${JSON.stringify(plan, null, 2)}\n`);
  writeFileSync(join(into, 'sbom.cdx.json'), `${JSON.stringify(billOfMaterials(app, packages, image), null, 2)}\n`);
  return plan;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const asked = process.argv.slice(2);
  const at = asked.indexOf('--base');
  const image = at === -1 ? undefined : releaseBase(String(asked.splice(at, 2)[1]));
  for (const app of asked.length > 0 ? asked : APPS.filter((name) => name !== 'samples')) {
    const { base, layers } = await prepareImage(app, image);
    const [{ digest, bytes, files }] = layers;
    console.log(`${app}: ${base} + ${digest} (${(bytes / 1e6).toFixed(1)} MB compressed, ${files.length} files)`);
  }
}
