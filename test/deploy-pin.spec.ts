/** `npm run deploy:pin` against a registry on loopback: tokens, digests that are checked, overlays that stay as written. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PRODUCTION = join(ROOT, 'deploy/k8s/overlays/prod/kustomization.yaml');
const { main, unpinnedImages, UNPINNED } = (await import(pathToFileURL(join(ROOT, 'tools/deploy/pin.mjs')).href)) as {
  main: (argv: string[], out: (line: string) => void, env?: Record<string, string>) => Promise<number>;
  unpinnedImages: (text: string) => string[];
  UNPINNED: string;
};

const manifestOf = (repository: string, tag: string) =>
  JSON.stringify({ schemaVersion: 2, mediaType: 'application/vnd.oci.image.index.v1+json', repository, tag });
const digestOf = (text: string) => `sha256:${createHash('sha256').update(text).digest('hex')}`;

let server: Server;
let host: string;
let folder: string;
/** Requests the registry got, and how it behaves. */
const asked: string[] = [];
let behaviour: 'open' | 'token' | 'lies' | 'absent' = 'open';

function answer(request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '', `http://${host}`);
  const { authorization } = request.headers;
  asked.push(`${request.method} ${url.pathname}${url.search}`);
  if (url.pathname === '/token') {
    const right = authorization === `Basic ${Buffer.from('ann:secret').toString('base64')}`;
    response.writeHead(right ? 200 : 401).end(JSON.stringify({ token: `for ${url.searchParams.get('scope')}` }));
    return;
  }
  const [, repository = '', tag = ''] = /^\/v2\/(.+)\/manifests\/([^/]+)$/.exec(url.pathname) ?? [];
  if (behaviour === 'token' && authorization !== `Bearer for repository:${repository}:pull`) {
    const challenge = `Bearer realm="http://${host}/token",service="registry.test"`;
    response.writeHead(401, { 'www-authenticate': challenge }).end();
    return;
  }
  if (behaviour === 'absent' && repository.endsWith('registry')) return void response.writeHead(404).end();
  const manifest = manifestOf(repository, tag);
  const told = behaviour === 'lies' ? digestOf('something else') : digestOf(manifest);
  response.writeHead(200, { 'docker-content-digest': told }).end(manifest);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'toolfleet-pin-'));
  server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  rmSync(folder, { recursive: true, force: true });
});

/** A copy of the production overlay with images at the registry of the test. */
function overlay(): { file: string; text: string } {
  const file = join(folder, 'kustomization.yaml');
  const text = readFileSync(PRODUCTION, 'utf8').replaceAll('images.example.com', host);
  writeFileSync(file, text);
  return { file, text };
}

async function pin(file: string, ...more: string[]): Promise<string[]> {
  const lines: string[] = [];
  const env = { REGISTRY_USER: 'ann', REGISTRY_PASSWORD: 'secret' };
  await main([...more, '--plain-http', file], (line) => lines.push(line), env);
  return lines;
}

describe('deploy:pin', () => {
  it.each(['open', 'token'] as const)('writes the digests of a registry (%s) and nothing else', async (how) => {
    behaviour = how;
    const { file, text } = overlay();
    await pin(file, '--tag', '1.2.3');
    const written = readFileSync(file, 'utf8');
    expect(unpinnedImages(written)).toEqual([]);
    const changed = written.split('\n').filter((line, at) => line !== text.split('\n')[at]);
    expect(changed).toHaveLength(unpinnedImages(text).length);
    for (const name of ['budget', 'gateway', 'python-sandbox']) {
      const block = `newName: ${host}/toolfleet/${name}\n    digest: ${digestOf(manifestOf(`toolfleet/${name}`, '1.2.3'))}`;
      expect(written).toContain(block);
    }
    if (how === 'token')
      expect(asked).toContain('GET /token?service=registry.test&scope=repository%3Atoolfleet%2Fgateway%3Apull');
    // Run again for the next release, it refreshes them.
    await pin(file, '--tag', '1.3.0');
    expect(readFileSync(file, 'utf8')).toContain(digestOf(manifestOf('toolfleet/gateway', '1.3.0')));
  });

  it.each([
    ['lies', /the registry named sha256:.* and sent sha256:/],
    ['absent', /toolfleet\/registry:1\.2\.3: the registry answered HTTP 404/],
  ] as const)('changes nothing when the registry %s', async (how, error) => {
    behaviour = how;
    const { file, text } = overlay();
    await expect(pin(file, '--tag', '1.2.3')).rejects.toThrow(error);
    expect(readFileSync(file, 'utf8')).toBe(text);
  });

  it('takes the version of package.json when no tag is given', async () => {
    behaviour = 'open';
    const { file } = overlay();
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    expect(await pin(file)).toContain(
      `${host}/toolfleet/gateway:${version}  ${digestOf(manifestOf('toolfleet/gateway', version))}`,
    );
  });

  it('--images writes other names, with the digests of these images', async () => {
    behaviour = 'open';
    const { file } = overlay();
    await pin(file, '--images', `${host}/mine`, '--tag', '1.2.3');
    const written = readFileSync(file, 'utf8');
    expect(written).not.toContain(`${host}/toolfleet`);
    expect(written).toContain(
      `newName: ${host}/mine/gateway\n    digest: ${digestOf(manifestOf('mine/gateway', '1.2.3'))}`,
    );
  });

  it('--base prints the base image of a Dockerfile with its digest', async () => {
    behaviour = 'open';
    const file = join(folder, 'app.Dockerfile');
    const lines: string[] = [];
    const base = async (text: string) => {
      writeFileSync(file, text);
      return main(['--plain-http', '--base', file], (line) => lines.push(line));
    };
    await base(`ARG NODE_IMAGE=${host}/library/node:24-slim\n\nFROM \${NODE_IMAGE}\n`);
    const digest = digestOf(manifestOf('library/node', '24-slim'));
    await base(`ARG NODE_IMAGE=node:24-slim@${digest}\n`);
    expect(lines).toEqual([`${host}/library/node:24-slim@${digest}`, `node:24-slim@${digest}`]);
    await expect(base('FROM node\n')).rejects.toThrow('no line "ARG NODE_IMAGE');
    behaviour = 'lies';
    await expect(base(`ARG NODE_IMAGE=${host}/library/node:24-slim\n`)).rejects.toThrow('the registry named');
  });

  it('--check names unpinned images', async () => {
    behaviour = 'open';
    const { file } = overlay();
    const lines: string[] = [];
    expect(await main(['--check', file], (line) => lines.push(line))).toBe(1);
    expect(lines).toContain(`not pinned: ${host}/toolfleet/gateway`);
    await pin(file);
    expect(await main(['--check', file], (line) => lines.push(line))).toBe(0);
    expect(unpinnedImages(`images:\n  - name: a/b\n    newTag: "1"\n  - name: a/c\n    digest: ${UNPINNED}\n`)).toEqual(
      ['a/b', 'a/c'],
    );
  });
});
