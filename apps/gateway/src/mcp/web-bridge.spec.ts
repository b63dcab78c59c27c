import { afterEach, describe, expect, it } from 'vitest';
import { closeAll, serveEndpoint, success } from '../../spec/mcp-endpoint.fixture.js';

afterEach(closeAll);

const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const MODERN = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'echo' };

async function post(url: string, body: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: 'Bearer alice',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body,
  });
  return { status: response.status, text: await response.text() };
}

describe.each([
  ['2025', '', {}],
  ['2026', `,"_meta":${JSON.stringify(META)}`, MODERN],
])('a body of %s', (_revision, meta, headers) => {
  const callWith = (params: string, method = 'tools/call'): string =>
    `{"jsonrpc":"2.0","id":7,"method":"${method}","params":{"name":"echo"${params}${meta}}}`;

  it.each([
    ['arguments', callWith(`,"arguments":{"text":${nested(10_000)}}`)],
    ['arguments of a call that asks for progress', callWith(`,"arguments":{"text":${nested(10_000)}},"x":1`)],
    ['an unknown field', callWith(`,"odd":${nested(40_000)}`)],
  ])('with %s nested too deeply is refused with a protocol error', async (_name, body) => {
    const faults: unknown[] = [];
    const { url, seen } = await serveEndpoint({ onFault: (fault) => faults.push(fault) });
    const { status, text } = await post(url, body, headers);
    expect(status).toBe(400);
    expect(JSON.parse(text)).toEqual({
      jsonrpc: '2.0',
      id: 7,
      error: { code: -32_600, message: 'The body is nested deeper than 256 levels' },
    });
    expect(seen).toEqual([]);
    expect(faults).toEqual([]);
    expect((await post(url, callWith(',"arguments":{}'), headers)).status).toBe(200);
  });

  it.each(['1e400', '[{"id":1e999}]', '-1e400'])(
    'with the number %s, which is out of range, is refused',
    async (number) => {
      const { url, seen } = await serveEndpoint();
      const { status, text } = await post(url, callWith(`,"arguments":{"text":${number}}`), headers);
      expect(status).toBe(400);
      expect(JSON.parse(text)).toMatchObject({ id: 7, error: { code: -32_600 } });
      expect(text).toContain('cannot be represented exactly; send it as a string');
      expect(seen).toEqual([]);
      expect((await post(url, callWith(`,"arguments":{"text":${JSON.stringify(number)}}`), headers)).status).toBe(200);
    },
  );

  it('is answered where the client accepts anything', async () => {
    const { url, seen } = await serveEndpoint();
    // The second call asks for progress, so it is answered by the SDK.
    const progress = meta === '' ? ',"_meta":{"progressToken":1}' : '';
    for (const more of ['', progress]) {
      const { status, text } = await post(url, callWith(`,"arguments":{"text":"hi"}${more}`), {
        ...headers,
        accept: '*/*',
      });
      expect([status, text.includes('"id":7'), text.includes('"result"')]).toEqual([200, true, true]);
    }
    const refused = await post(url, callWith(',"arguments":{}'), { ...headers, accept: 'text/html' });
    expect([refused.status, seen.length]).toEqual([meta === '' ? 406 : 200, meta === '' ? 2 : 3]);
  });

  it('with 10,000 siblings is served, as is a result of 100,000; 100,000 siblings are refused', async () => {
    const wide = Array.from({ length: 100_000 }, () => ({ k: 1 }));
    const { url } = await serveEndpoint({ executeCall: async () => success(wide) }, { maxBodyBytes: 4_000_000 });
    const send = (rows: object[]) => post(url, callWith(`,"arguments":{"text":${JSON.stringify(rows)}}`), headers);
    const { status, text } = await send(wide.slice(0, 10_000));
    expect(status).toBe(200);
    const { structuredContent } = JSON.parse(text).result;
    expect(structuredContent.result ?? structuredContent).toHaveLength(100_000);
    const refused = await send(wide);
    expect(refused.status).toBe(413);
    expect(refused.text).toContain('more than 50000 names and values');
  });
});
