import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fastify, type FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MountedConsole } from './console.js';

const SCRIPT = `export const long = '${'x'.repeat(2_000)}';`;
let folder: string;
const open: FastifyInstance[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-console-'));
  await mkdir(join(folder, 'web/assets'), { recursive: true });
  await writeFile(join(folder, 'web/index.html'), '<!doctype html><title>console</title>');
  await writeFile(join(folder, 'web/assets/app-1a2b.js'), SCRIPT);
  await writeFile(join(folder, 'web/notes.exe'), 'not served');
  await writeFile(join(folder, 'secret.txt'), 'outside');
});
afterAll(async () => {
  await Promise.all(open.map((server) => server.close()));
  await rm(folder, { recursive: true, force: true });
});

async function serve(consoleDir: string | undefined) {
  const warnings: unknown[] = [];
  const server = fastify();
  open.push(server);
  await new MountedConsole(consoleDir, {
    logger: { warn: (...said: unknown[]) => void warnings.push(said) },
    faults: { set: () => undefined },
  } as never).mount(server);
  return { server, warnings };
}

describe('the console', () => {
  it('is served with a content security policy that allows only its own files', async () => {
    const { server } = await serve(join(folder, 'web'));
    for (const url of ['/console', '/console/', '/console/index.html', '/console?x=1']) {
      const answer = await server.inject(url);
      expect(answer.statusCode, url).toBe(200);
      expect(answer.body).toContain('<title>console</title>');
      expect(answer.headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-cache',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
      });
      const policy = String(answer.headers['content-security-policy']);
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self';");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
    }
  });

  it('serves hashed files compressed and immutable, and answers 304 if the client has them', async () => {
    const { server } = await serve(join(folder, 'web'));
    const url = '/console/assets/app-1a2b.js';
    const plain = await server.inject({ url });
    expect(plain.headers['cache-control']).toContain('immutable');
    expect(plain.body).toBe(SCRIPT);
    const packed = await server.inject({ url, headers: { 'accept-encoding': 'br, gzip' } });
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(packed.rawPayload.length).toBeLessThan(plain.rawPayload.length / 4);
    const etag = String(plain.headers['etag']);
    const known = await server.inject({ url, headers: { 'if-none-match': `"other", W/${etag}` } });
    expect([known.statusCode, known.body]).toEqual([304, '']);
    const head = await server.inject({ method: 'HEAD', url });
    expect([head.statusCode, head.headers['etag']]).toEqual([200, etag]);
  });

  it.each([
    '/console/../secret.txt',
    '/console/..%2fsecret.txt',
    '/console/%2e%2e/secret.txt',
    '/console/..\\secret.txt',
    '/console/assets/../../secret.txt',
    '/console//etc/passwd',
    '/console/assets',
    '/console/notes.exe',
    '/console/index.html%00.js',
    '/console/constructor',
  ])('serves nothing else: %s', async (url) => {
    const { server } = await serve(join(folder, 'web'));
    const answer = await server.inject(url);
    expect(answer.statusCode).toBe(404);
    expect(answer.body).not.toContain('outside');
  });

  it.each([undefined, '', '/nowhere'])('answers 404 when there is none: %s', async (consoleDir) => {
    const { server, warnings } = await serve(consoleDir);
    const answer = await server.inject('/console');
    expect(answer.statusCode).toBe(404);
    expect(answer.json()).toMatchObject({ code: 'NOT_FOUND', error: expect.stringContaining('CONSOLE_DIR') });
    expect(warnings).toHaveLength(consoleDir === '/nowhere' ? 1 : 0);
  });
});
