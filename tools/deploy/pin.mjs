/**
 * `npm run deploy:pin [-- --tag <version>] [-- --images <prefix>] [-- <kustomization.yaml> …]`: asks the registries for the digests of the
 * images in the production overlay and writes them there, so that a cluster runs these bytes and no others. The tag is the version of
 * package.json unless given. `--images` also writes the names as `<prefix>/<service>`. `--check` writes nothing, lists unpinned images,
 * and ends with 1 when there is anything. `--base <Dockerfile>` writes nothing either: it prints the base image of our images
 * (`ARG NODE_IMAGE`) with its digest, from which a release builds all of them. `--plain-http` is for registries on loopback. REGISTRY_USER and
 * REGISTRY_PASSWORD log in where a registry asks for it.
 *
 * Speaks the OCI Distribution Specification 1.1 (GET /v2/<name>/manifests/<tag>) with the token authentication of the
 * Distribution project. A digest is taken only if it is the SHA-256 of the manifest that was received.
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import yaml from 'js-yaml';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const PRODUCTION = join(ROOT, 'deploy/k8s/overlays/prod/kustomization.yaml');
/** The placeholder in the overlay until an image is pinned. */
export const UNPINNED = `sha256:${'0'.repeat(64)}`;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const MANIFESTS = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;
const TIMEOUT_MS = 30_000;

/** Images of a kustomization that are not pinned, by the name they are pulled under. */
export function unpinnedImages(text) {
  return (yaml.load(text).images ?? [])
    .filter(({ digest }) => !DIGEST.test(digest ?? '') || digest === UNPINNED)
    .map(({ name, newName }) => newName ?? name);
}

/** The kustomization with its images pulled from below a prefix, such as `ghcr.io/owner/repository`. */
export function withPrefix(text, prefix) {
  return text.replaceAll(/^(\s+newName: )(?:\S+\/)?([\w-]+)$/gm, `$1${prefix}/$2`);
}

/** The kustomization with these digests, by the name images are pulled under; everything else stays as it is written. */
export function withDigests(text, digests) {
  let pulled;
  const lines = text.split('\n').map((line) => {
    const [, key, value] = /^\s+(?:- )?(name|newName|digest): (\S+)$/.exec(line) ?? [];
    if (key === 'name' || key === 'newName') pulled = value;
    if (key !== 'digest' || !digests.has(pulled)) return line;
    return line.replace(value, digests.get(pulled));
  });
  const written = lines.join('\n');
  const found = new Map(
    (yaml.load(written).images ?? []).map(({ name, newName, digest }) => [newName ?? name, digest]),
  );
  for (const [image, digest] of digests) {
    if (found.get(image) !== digest) throw new Error(`${image} has no line "digest: …" below its name to write to`);
  }
  return written;
}

/**
 * Digest of `<host>/<repository>:<tag>`.
 * @param {{plainHttp?: boolean, user?: string, password?: string}} options
 * @throws Error with the registry's answer
 */
export async function digestOf(image, tag, options = {}) {
  const { host, repository } = addressOf(image);
  const url = `${options.plainHttp ? 'http' : 'https'}://${host}/v2/${repository}/manifests/${tag}`;
  const headers = { accept: MANIFESTS };
  let response = await ask(url, headers);
  if (response.status === 401) {
    const authorization = await authorize(response.headers.get('www-authenticate') ?? '', repository, options);
    response = await ask(url, { ...headers, authorization });
  }
  if (response.status !== 200) throw new Error(`${image}:${tag}: the registry answered HTTP ${response.status}`);
  const body = await bodyOf(response, `${image}:${tag}`);
  const digest = `sha256:${createHash('sha256').update(body).digest('hex')}`;
  const told = response.headers.get('docker-content-digest');
  if (told !== null && told !== digest)
    throw new Error(`${image}:${tag}: the registry named ${told} and sent ${digest}`);
  return digest;
}

/** Docker Hub is meant when the first part of a name is not a host. */
function addressOf(image) {
  const [first = '', ...rest] = image.split('/');
  if (rest.length > 0 && /[.:]|^localhost$/.test(first)) return { host: first, repository: rest.join('/') };
  return { host: 'registry-1.docker.io', repository: rest.length === 0 ? `library/${image}` : image };
}

/** Answers a challenge: `Bearer realm="…",service="…"` with a token for pulling, `Basic` with the login itself. */
async function authorize(challenge, repository, { user, password, plainHttp }) {
  const login = user === undefined ? undefined : `Basic ${Buffer.from(`${user}:${password ?? ''}`).toString('base64')}`;
  if (/^basic /i.test(challenge) && login) return login;
  const parameter = (name) => new RegExp(`${name}="([^"]*)"`, 'i').exec(challenge)?.[1];
  const realm = parameter('realm');
  if (!/^bearer /i.test(challenge) || realm === undefined) throw new Error(`the registry wants a login: ${challenge}`);
  const url = new URL(realm);
  if (url.protocol !== 'https:' && !plainHttp)
    throw new Error(`the registry names a token service without TLS: ${realm}`);
  const service = parameter('service');
  if (service !== undefined) url.searchParams.set('service', service);
  url.searchParams.set('scope', `repository:${repository}:pull`);
  const response = await ask(url, login ? { authorization: login } : {});
  if (response.status !== 200) throw new Error(`${url.host} gave no token: HTTP ${response.status}`);
  const { token, access_token: accessToken } = JSON.parse((await bodyOf(response, url.host)).toString('utf8'));
  return `Bearer ${token ?? accessToken}`;
}

function ask(url, headers) {
  return fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
}

async function bodyOf(response, what) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_MANIFEST_BYTES) throw new Error(`${what}: the answer is larger than ${MAX_MANIFEST_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The base image that a Dockerfile names, with a digest: its own, or its tag's now. */
async function pinnedBase(dockerfile, options) {
  const base = /^ARG NODE_IMAGE=(\S+)$/m.exec(dockerfile)?.[1];
  if (base === undefined) throw new Error('the Dockerfile has no line "ARG NODE_IMAGE=<image>:<tag>"');
  if (base.includes('@')) return base;
  const colon = base.lastIndexOf(':');
  return `${base}@${await digestOf(base.slice(0, colon), base.slice(colon + 1), options)}`;
}

/** @returns exit code */
export async function main(argv, out = (line) => console.log(line), env = process.env) {
  const flags = new Set(argv.filter((word) => word === '--check' || word === '--plain-http'));
  const words = argv.filter((word) => !flags.has(word));
  const option = (name) => (words.includes(name) ? words.splice(words.indexOf(name), 2)[1] : undefined);
  const prefix = option('--images');
  const dockerfile = option('--base');
  const tag = option('--tag') ?? JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version;
  const files = words.length > 0 ? words : [PRODUCTION];
  if (flags.has('--check')) {
    const open = files.flatMap((file) => unpinnedImages(readFileSync(file, 'utf8')));
    for (const image of open) out(`not pinned: ${image}`);
    return open.length === 0 ? 0 : 1;
  }
  const options = { plainHttp: flags.has('--plain-http'), user: env.REGISTRY_USER, password: env.REGISTRY_PASSWORD };
  if (dockerfile !== undefined) {
    out(await pinnedBase(readFileSync(dockerfile, 'utf8'), options));
    return 0;
  }
  for (const file of files) {
    const written = readFileSync(file, 'utf8');
    const text = prefix === undefined ? written : withPrefix(written, prefix);
    const images = (yaml.load(text).images ?? []).map(({ name, newName }) => newName ?? name);
    const digests = new Map();
    // All or none: an overlay never mixes releases.
    for (const image of images) digests.set(image, await digestOf(image, tag, options));
    writeFileSync(file, withDigests(text, digests));
    for (const [image, digest] of digests) out(`${image}:${tag}  ${digest}`);
  }
  return 0;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.exitCode = await main(process.argv.slice(2)).catch((error) => {
    console.error(`deploy:pin: ${error.message}`);
    return 1;
  });
}
