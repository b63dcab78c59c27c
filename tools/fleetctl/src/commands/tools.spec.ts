import { describe, expect, it } from 'vitest';
import { CALCULATOR, routes, run, seen, url, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

describe('tools, describe, health', () => {
  it('show how a member of an argument is sent', async () => {
    const body = { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] };
    const parameters = { type: 'object', properties: { body }, required: ['body'] };
    routes.set('GET /api/v1/tools/add_book', () => ({
      status: 200,
      body: { ...CALCULATOR, name: 'add_book', parameters },
    }));
    expect((await run(['describe', 'add_book'])).out).toContain('fleetctl call add_book --body.title …\n');
    expect((await run(['call', 'add_book', '--title', 'Emma'])).error).toContain('it is a member: --body.title');
  });

  it('lists tools as a table and as JSON', async () => {
    const { out, code } = await run(['tools', '--category', 'data']);
    expect(code).toBe(0);
    expect(out.split('\n')).toEqual([
      'NAME                 CATEGORY  COST    DESCRIPTION',
      'calculator           data      free    Evaluates.',
      'other (unavailable)  data      $0.004  Evaluates.',
      '',
    ]);
    expect(seen[0]).toMatchObject({ path: '/api/v1/tools?category=data', key: 'Bearer the-key' });
    expect(JSON.parse((await run(['tools', '--json'])).out)).toHaveLength(2);
  });

  it('shows members of objects and of the items of lists, also as help of a call', async () => {
    const filter = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    const properties = { filter, rows: { type: 'array', items: filter } };
    routes.set('GET /api/v1/tools/calculator', () => ({
      status: 200,
      body: { ...CALCULATOR, parameters: { type: 'object', properties, required: ['rows'] } },
    }));
    const $defs = { row: filter, base: { properties: { name: { type: 'string' } }, required: ['name'] } };
    const references = {
      filter: { allOf: [{ $ref: '#/$defs/base' }] },
      rows: { type: 'array', items: { $ref: '#/$defs/row' } },
    };
    routes.set('GET /api/v1/tools/referring', () => ({
      status: 200,
      body: { ...CALCULATOR, parameters: { type: 'object', properties: references, required: ['rows'], $defs } },
    }));
    for (const argv of [
      ['describe', 'calculator'],
      ['call', 'calculator', '--help'],
      ['describe', 'referring'],
    ]) {
      const { out, code } = await run(argv);
      expect(code).toBe(0);
      const names = [...out.matchAll(/^(\S+(?: \*)?) +(?:string|object|array)/gm)].map(([, name]) => name);
      expect(names).toEqual(['filter', 'filter.name *', 'rows *', 'rows.0.name *']);
    }
    expect((await run(['call', '--help'])).out).toContain('fleetctl call <tool>');
  });

  it.each([
    [['--category', 'dat'], 'No tool has category or tag "dat"; did you mean data?'],
    [['--source', 'petstor'], 'No tools of source "petstor"'],
  ])('fails for a list by %j', async (options, message) => {
    const pages = [[], [CALCULATOR]];
    routes.set('GET /api/v1/tools', () => ({ status: 200, body: pages.shift() }));
    expect(await run(['tools', ...options])).toMatchObject({ code: 1, error: expect.stringContaining(message) });
  });

  it('prints what a registration left to do', async () => {
    const refused = [{ name: 'GET /a', code: 'EGRESS_REFUSED', message: 'host x is not allowed' }];
    routes.set('POST /api/v1/sources/openapi', () => ({
      status: 201,
      body: { message: 'Registered 1 operations', quarantined: [], refused, warnings: ['/paths: a note'] },
    }));
    routes.set('GET /api/v1/sources', () => ({ status: 200, body: [] }));
    const { out } = await run(['sources', 'add', 'openapi', 'pets', 'https://pets.example.com/openapi.json']);
    expect(out).toContain('refused      GET /a: host x is not allowed (EGRESS_REFUSED)');
    expect(out).toContain('note         /paths: a note');
    expect(out).toContain('fleetctl sources refresh pets\n');
  });

  it('finds tools, and prints stubs as the gateway writes them', async () => {
    await run(['tools', 'search', 'add', 'numbers', '--limit', '3']);
    expect(seen.at(-1)?.path).toBe('/api/v1/tools?limit=3&query=add+numbers');
    const text = '# Stubs\nclass Tools: ...\n';
    routes.set('GET /api/v1/tools', () => ({ status: 200, body: text, type: 'text/x-python; charset=utf-8' }));
    expect((await run(['tools', 'stubs', 'a', 'b-c'])).out).toBe(text);
    expect(seen.at(-1)?.path).toBe('/api/v1/tools?format=python&names=a%2Cb-c');
    expect(JSON.parse((await run(['tools', 'stubs', '--json'])).out)).toEqual({ stubs: text });
    await run(['tools', 'types', 'a']);
    expect(seen.at(-1)?.path).toBe('/api/v1/tools?format=typescript&names=a');
    for (const argv of [
      ['a', 'b', '--python'],
      ['--python', 'a', 'b'],
    ]) {
      await run(['tools', 'types', ...argv]);
      expect(seen.at(-1)?.path).toBe('/api/v1/tools?format=pydantic&names=a%2Cb');
    }
    for (const wrong of [
      ['tools', 'search'],
      ['tools', 'calculator'],
      ['tools', 'list', 'x'],
    ])
      expect((await run(wrong)).code).toBe(2);
  });

  it('shows the tools of a toolset', async () => {
    await run(['tools', '--toolset', 'support@3', '--category', 'data']);
    expect(seen.at(-1)?.path).toBe('/api/v1/tools?category=data&toolset=support%403');
    const { out } = await run(['describe', 'calculator', '--toolset', 'support']);
    expect(seen.at(-1)?.path).toBe('/api/v1/tools/calculator?toolset=support');
    expect(out).toContain('fleetctl call calculator --toolset support --expression …');
    await run(['describe', 'calculator', '--toolset', 'a&b']);
    expect(seen.at(-1)?.path).toBe('/api/v1/tools/calculator?toolset=a%26b');
  });

  it('describes a tool', async () => {
    const { out } = await run(['describe', 'calculator']);
    expect(out).toContain(
      'calculator 1.0.0  (data, free)\nAt most 5 s, 60 calls a minute, requests of 8 MiB, results of 5 MiB\n',
    );
    expect(out).toMatch(/expression \*\s+string/);
    expect(out).toMatch(/tags\s+array of integer/);
    expect(out).toContain('fleetctl call calculator --expression …');
  });

  it('shows whether the fleet is ready', async () => {
    routes.set('GET /health', () => ({ status: 200, body: { status: 'ok' } }));
    routes.set('GET /readiness', () => ({ status: 503, body: { status: 'not ready', parts: { nats: 'away' } } }));
    const { code, out } = await run(['health']);
    expect([code, out]).toEqual([1, `${url}  alive, but not ready\n  nats: away\n`]);
    routes.set('GET /readiness', () => ({ status: 200, body: {} }));
    expect((await run(['health'])).code).toBe(0);
  });

  it('shows a fault of several services once', async () => {
    const fault = { subject: 'file', message: 'foo is unknown', since: '2026-01-30T00:00:00.123Z', instances: 1 };
    const faults = ['budget', 'gateway'].map((service) => ({ ...fault, service }));
    routes.set('GET /health', () => ({ status: 200, body: {} }));
    routes.set('GET /readiness', () => ({ status: 200, body: {} }));
    routes.set('GET /api/v1/fleet', () => ({
      status: 200,
      body: { faults: [...faults, { ...fault, service: 'gateway', subject: 'policy' }] },
    }));
    const since = '(since 2026-01-30T00:00:00Z)';
    expect((await run(['health'])).out).toBe(
      `${url}  ready\n  budget, gateway: file: foo is unknown ${since}\n  gateway: policy: foo is unknown ${since}\n`,
    );
  });
});
