import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CommandIo } from './read-spec.js';
import { runOpenapiInspect, runOpenapiRequest } from './inspect.js';

const PARCELS = {
  openapi: '3.1.0',
  paths: {
    '/parcels/{id}': {
      get: {
        operationId: 'getParcel',
        summary: 'Where a parcel is',
        parameters: [
          { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
          { name: 'depth', in: 'query', schema: { type: 'integer' } },
          { name: 'X-Session-Token', in: 'header', schema: { type: 'string' } },
        ],
      },
    },
    '/far': { post: { operationId: 'far', requestBody: { $ref: 'bodies.yaml#/a' } } },
  },
};

describe('fleetctl openapi', () => {
  let folder: string;
  let good: string;
  let bad: string;
  const server = createServer((request, response) => {
    response
      .writeHead(request.url === '/spec.json' ? 200 : 404)
      .end(JSON.stringify({ ...PARCELS, servers: [{ url: '/v2' }] }));
  });

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'fleetctl-'));
    good = join(folder, 'good.json');
    bad = join(folder, 'bad.yaml');
    const { '/far': _far, ...paths } = PARCELS.paths;
    writeFileSync(good, JSON.stringify({ ...PARCELS, paths, servers: [{ url: 'https://h.test/api' }] }));
    writeFileSync(bad, 'openapi: 3.1.0\npaths: [\n');
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });

  const run = async (command: typeof runOpenapiInspect, ...args: string[]) => {
    let [out, error] = ['', ''];
    const io: CommandIo = {
      stdout: { write: (text) => Boolean((out += text)) || true },
      stderr: { write: (text) => Boolean((error += text)) || true },
      env: {},
    };
    return { code: await command(args, io), out, error };
  };
  const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  it('prints one JSON line per source, from files and URLs, and exits with 1 when anything is refused', async () => {
    const { code, out } = await run(runOpenapiInspect, '--json', good, `${url()}/spec.json`, bad, `${url()}/none`);
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(code).toBe(1);
    expect(lines.map(({ ok, openapi, operations }) => [ok, openapi, operations])).toEqual([
      [true, '3.1.0', 1],
      [false, '3.1.0', 2],
      [false, null, 0],
      [false, null, 0],
    ]);
    expect(Object.keys(lines[0])).toEqual(['source', 'ok', 'openapi', 'operations', 'tools', 'warnings', 'refused']);
    expect(lines[0].tools[0]).toMatchObject({
      name: 'getParcel',
      method: 'GET',
      path: '/parcels/{id}',
      idempotent: true,
    });
    expect(lines[1].refused[0]).toMatchObject({
      pointer: '/paths/~1far/post',
      message: expect.stringContaining('bodies.yaml'),
    });
    expect(lines[2].refused[0].message).toMatch(/line \d+, column \d+/);
    expect(lines[3].refused[0].message).toContain('HTTP 404');
  });

  it('prints tools, warnings and refusals for people', async () => {
    const { code, out } = await run(runOpenapiInspect, good);
    expect([code, out]).toEqual([0, expect.stringContaining('getParcel  GET     /parcels/{id}  Where a parcel is')]);
    expect((await run(runOpenapiInspect)).code).toBe(2);
    expect((await run(runOpenapiInspect, '--nonsense')).code).toBe(2);
  });

  it('shows the request of a call with coerced arguments and masked secrets', async () => {
    const args = JSON.stringify({ id: 'a/b', depth: '3', 'X-Session-Token': 'very-secret' });
    const { code, out } = await run(
      runOpenapiRequest,
      good,
      'getParcel',
      '--arguments',
      args,
      '--auth-type',
      'bearer',
      '--json',
    );
    expect(code).toBe(0);
    expect(JSON.parse(out)).toEqual({
      method: 'GET',
      url: 'https://h.test/api/parcels/a%2Fb?depth=3',
      target: '/api/parcels/a%2Fb?depth=3',
      headers: { 'X-Session-Token': '***', Authorization: 'Bearer ***' },
    });
    const text = await run(runOpenapiRequest, `${url()}/spec.json`, 'getParcel', '--arguments', '{"id":"1"}');
    expect(text.out).toBe(`GET /v2/parcels/1 HTTP/1.1\nHost: ${url().slice(7)}\n\n`);
  });

  it('refuses unknown arguments of an operation with effects, as a call does', async () => {
    const file = join(folder, 'notes.json');
    const paths = { '/notes': { post: { operationId: 'addNote' } } };
    writeFileSync(file, JSON.stringify({ openapi: '3.1.0', servers: [{ url: 'https://h.test' }], paths }));
    expect((await run(runOpenapiRequest, file, 'addNote')).code).toBe(0);
    const { code, error } = await run(runOpenapiRequest, file, 'addNote', '--arguments', '{"colour":1}');
    expect([code, error]).toEqual([1, expect.stringContaining('colour')]);
  });

  it.each([
    [['getParcel', '--arguments', '{}'], 'id'],
    [['getParcel', '--arguments', '{"id":".."}'], 'PATH_PARAM_UNSAFE'],
    [['getParcel', '--arguments', '[]'], 'JSON object'],
    [['getNothing'], 'no tool "getNothing"'],
  ])('refuses %j', async (args, message) => {
    const { code, error } = await run(runOpenapiRequest, good, ...args);
    expect([code, error]).toEqual([1, expect.stringContaining(message)]);
  });
});
