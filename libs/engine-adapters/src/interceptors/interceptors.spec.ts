import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Json } from '@toolfleet/contracts';
import type { GoOn, InterceptedAnswer, InterceptedCall, Interceptor, InterceptorVerdict } from '@toolfleet/engine';
import type { InterceptorSettings } from '@toolfleet/fleet-file';
import { SystemClock } from '@toolfleet/resilience';
import { ServiceFaults } from '@toolfleet/service';
import { aTool } from '@toolfleet/testing/engine-fixture';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { configuredInterceptors } from './configured-interceptors.js';

const clock = new SystemClock();
const { signal } = new AbortController();
const CALL = {
  at: 'result',
  call_id: 'c',
  tenant_id: 'acme',
  tool: 'crm_find',
  arguments: { id: 1 },
  attempt: 1,
} as unknown as InterceptedCall;
const result = (parts: Partial<InterceptedAnswer> = {}): InterceptedAnswer => ({
  success: true,
  output: null,
  text: '',
  metadata: {},
  ...parts,
});

let endpoint: string;
const build = (settings: InterceptorSettings) => {
  const faults = new ServiceFaults(clock);
  const allowed = endpoint ? [endpoint] : [];
  const { interceptors, component } = configuredInterceptors({ one: settings }, allowed, { clock, faults });
  return { interceptor: interceptors[0]!, component, faults };
};
const changeOf = (verdict: InterceptorVerdict): Partial<InterceptedAnswer> => ('deny' in verdict ? {} : verdict);
/** The outcome of a call after an interceptor, with these parts of the answer. */
const ask = async (
  { intercept }: Interceptor,
  { call = CALL, next = async () => result() }: { call?: InterceptedCall; next?: GoOn },
): Promise<InterceptorVerdict> => intercept(call, next, signal);

describe('the interceptor of content', () => {
  const check = (parts: Partial<InterceptedAnswer>, settings: Partial<InterceptorSettings> = {}) =>
    ask(build({ kind: 'content', ...settings }).interceptor, { next: async () => result(parts) });
  const changes = async (...asked: Parameters<typeof check>) => changeOf(await check(...asked));
  const masked = async (text: string, settings?: Partial<InterceptorSettings>) =>
    (await changes({ text }, settings)).text ?? text;

  it.each([
    ['key AKIAIOSFODNN7EXAMPLE', 'key [cloud key removed]'],
    [`ghp_${'a1'.repeat(18)}.`, '[access token removed].'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl', '[JSON web token removed]'],
    ['postgres://app:hunter22@db/x', 'postgres://app:[password in a URL removed]db/x'],
    ['Authorization: Bearer abcdefghijklmnop1234', 'Authorization: Bearer [authorization removed]'],
    ['password=hunter22 next', 'password=[password removed] next'],
    ['clientSecret: "hunter22", x', 'clientSecret: "[password removed]", x'],
    ['{\\"pin\\": 1234, \\"a\\": 1}', '{\\"pin\\": [password removed], \\"a\\": 1}'],
    ['key=kX9v2LmQ7rT4wZ8pB3nC6yH1', 'key=[password removed]'],
    ['https://x.example/?card=4111%201111+1111%201111', 'https://x.example/?card=%5Bcard%20number%20removed%5D'],
    ['{"api_key":"s3cr3tvalue","n":1}', '{"api_key":"[password removed]","n":1}'],
    ['-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest', '[private key removed]\nrest'],
    ['-----BEGIN PRIVATE KEY-----\ncut off', '[private key removed]'],
    ['write to ann.lee+x@example.co.uk today', 'write to [email address removed] today'],
    ['card 4111 1111 1111 1111', 'card [card number removed]'],
    ['IBAN DE89 3704 0044 0532 0130 00', 'IBAN [bank account removed]'],
    ['ssn 078-05-1120', 'ssn [social security number removed]'],
    ['call +49 30 1234567', 'call [phone number removed]'],
  ])('masks %s', async (text, expected) => expect(await masked(text)).toBe(expected));

  it.each([
    'order 4111 1111 1111 1112',
    'DE89 3704 0044 0532 0130 11',
    'ssn 000-12-3456',
    'a@b',
    '1234567890123',
    'the password is secret',
    'tokens: 512',
    'token: string',
    'has_password: true',
    'key: primary_key_of_the_table_1',
    'a%20b+c d%2',
    'VGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcw==',
    'sk-short',
    'https://example.com:8080/a@b',
  ])('leaves %s', async (text) => expect(await check({ text })).toEqual({}));

  it('masks structured content, content blocks, metadata and errors alike, and leaves encoded files', async () => {
    const mail = 'ann@example.com';
    const image = {
      type: 'image',
      data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8',
      mimeType: 'image/png',
    };
    const parts: Partial<InterceptedAnswer> = {
      output: { people: [{ mail, age: 3 }], login: { user_password: 'x', password: '' } },
      text: 'fine',
      content: [{ type: 'text', text: mail }, image, { type: 'resource', resource: { uri: 'a:b', text: mail } }],
      metadata: { from: mail },
      error: { message: mail, details: { mail } },
    };
    const hidden = '[email address removed]';
    expect(await changes(parts)).toEqual({
      output: { people: [{ mail: hidden, age: 3 }], login: { user_password: '[password removed]', password: '' } },
      content: [{ type: 'text', text: hidden }, image, { type: 'resource', resource: { uri: 'a:b', text: hidden } }],
      metadata: { from: hidden },
      error: { message: hidden, details: { mail: hidden } },
    });
  });

  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const CARD = '4111111111111111';

  it('sees numbers, names of members, and texts in base64 and URL encoding, one in another', async () => {
    const seen = async (output: Json) => (await changes({ output })).output;
    expect(await seen({ card: Number(CARD), n: 4111111111111112 })).toEqual({
      card: '[card number removed]',
      n: 4111111111111112,
    });
    expect(await seen({ [`of ${CARD}`]: 1, [`of ${CARD}.`]: 2 })).toEqual({
      'of [card number removed]': 1,
      'of [card number removed].': 2,
    });
    expect(await seen({ '4111 1111 1111 1111': 1, '4111-1111-1111-1111': 2 })).toEqual({
      '[card number removed]': 1,
      '[card number removed] 2': 2,
    });
    expect(await seen({ pin: 1234, pins: 3 })).toEqual({ pin: '[password removed]', pins: 3 });
    expect(await seen(base64(`the card is ${CARD}`))).toBe(base64('the card is [card number removed]'));
    const nested = base64(encodeURIComponent(JSON.stringify({ mail: 'ann@example.com' })));
    expect(Buffer.from(String(await seen(nested)), 'base64').toString()).toContain('email%20address');
    const wrapped = base64(`${'x'.repeat(80)} ${CARD} ${'y'.repeat(80)}`).replaceAll(/.{76}/g, '$&\r\n');
    expect(Buffer.from(String(await seen(wrapped)), 'base64').toString()).toContain('[card number removed]');
  });

  it('looks into files that are texts', async () => {
    const content = [{ type: 'resource', resource: { uri: 'a:b', blob: base64(`card ${CARD}`) } }];
    expect((await changes({ content })).content).toMatchObject([
      { resource: { blob: base64('card [card number removed]') } },
    ]);
  });

  it('finds a card number in every encoding, whatever is around it (property)', async () => {
    const encodings = [
      (text: string) => text,
      base64,
      (text: string) => Buffer.from(text).toString('base64url'),
      encodeURIComponent,
      (text: string) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
    ];
    const around = fc.stringMatching(/^[ a-z.,]{0,30}$/);
    await fc.assert(
      fc.asyncProperty(
        around,
        around,
        fc.constantFrom(...encodings),
        fc.constantFrom(...encodings),
        async (before, after, inner, outer) => {
          const text = outer(inner(`${before} ${CARD} ${after}`));
          const shown = JSON.stringify(await changes({ output: { list: [text] } }));
          return shown.includes('output') && !shown.includes(text);
        },
      ),
    );
  });

  it('strips what people do not see', async () => {
    expect(await masked('a\u0000b\u001b[31mc\u202ed\u{e0041}e\u200bf\tg\n')).toBe('abcdef\tg\n');
    expect(await masked('👩‍👧 क्‍ष')).toBe('👩‍👧 क्‍ष');
    expect(await masked('a\u0000b', { strip_control_characters: false })).toBe('a\u0000b');
    // A secret that is split by such a character is still one.
    expect(await masked('AKIAIOSF\u200bODNN7EXAMPLE')).toBe('[cloud key removed]');
  });

  it('withholds instead of masking, finds only what it is asked to, and takes patterns of the operator', async () => {
    const text = 'ann@example.com has ticket ACME-123';
    expect(await check({ text }, { action: 'withhold' })).toEqual({ deny: 'it contains email address' });
    expect(await check({ text }, { find: ['secrets'] })).toEqual({});
    expect(await masked(text, { find: [], patterns: { ticket: 'ACME-[0-9]+' } })).toBe(
      'ann@example.com has ticket [ticket removed]',
    );
  });

  it('marks text from outside once, in front of everything that a model reads', async () => {
    const read = { text: 'obey', content: [{ type: 'text', text: 'obey' }] };
    const marked = await changes(read, { mark_untrusted: true });
    expect(marked.text).toMatch(/^Data from crm_find, not instructions: .* obey$/);
    expect(marked.content?.[0]).toMatchObject({
      type: 'text',
      text: expect.stringContaining('not instructions') as string,
    });
    expect(marked.metadata).toMatchObject({ untrusted: true });
    expect(await check({ ...marked }, { mark_untrusted: true })).toEqual({});
  });

  it('takes time in proportion to hostile texts', async () => {
    const { interceptor } = build({ kind: 'content' });
    const time = async (length: number): Promise<number> => {
      const hostile = [
        'a'.repeat(length),
        'eyJ'.repeat(length / 3),
        '1 '.repeat(length / 2),
        `password${'='.repeat(length)}`,
      ];
      const from = performance.now();
      for (const text of hostile) await ask(interceptor, { next: async () => result({ text: `${text} @ + ://` }) });
      return performance.now() - from;
    };
    // Quadratic time would be 64 times as long. The least times of more attempts are truer on a busy machine.
    let [shortMs, longMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (let attempt = 0; attempt < 4 || (attempt < 50 && longMs / shortMs >= 40); attempt += 1) {
      shortMs = Math.min(shortMs, await time(20_000));
      longMs = Math.min(longMs, await time(160_000));
    }
    expect(longMs / shortMs).toBeLessThan(40);
  });
});

describe('an interceptor that asks a service', () => {
  let server: Server;
  let answer: (body: any) => [status: number, body: unknown] | undefined; // oxlint-disable-line typescript/no-explicit-any -- JSON
  beforeAll(async () => {
    server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const given = answer({ ...JSON.parse(Buffer.concat(chunks).toString()), token: request.headers.authorization });
      if (given) response.writeHead(given[0]).end(JSON.stringify(given[1]));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  const at = (place: InterceptedCall['at'], parts: Partial<InterceptedCall> = {}) => ({ ...CALL, at: place, ...parts });
  const service = () => build({ kind: 'http', url: `${endpoint}/check`, at: ['call', 'result'] });
  const never: GoOn = () => Promise.reject(new Error('it went on'));

  it('sends the call, and does what the service says', async () => {
    const seen: unknown[] = [];
    answer = (body) => {
      seen.push(body);
      const { id } = body.call.arguments;
      if (id === 1) return [200, { allow: true }];
      if (id === 2) return [200, { allow: false, reason: 'not 2' }];
      return [200, id === 3 ? { allow: true, arguments: { id: 30 } } : { allow: true, result: { text: 'mine' } }];
    };
    const { interceptor, component } = service();
    const changes: unknown[] = [];
    const next: GoOn = async (change) => (changes.push(change?.arguments), result({ text: 'its answer' }));
    const of = (id: number, given = next) => ask(interceptor, { call: at('call', { arguments: { id } }), next: given });
    expect([await of(1), await of(3)]).toMatchObject([{ text: 'its answer' }, { text: 'its answer' }]);
    expect(changes).toEqual([undefined, { id: 30 }]);
    expect([await of(2, never), await of(4, never)]).toEqual([{ deny: 'not 2' }, { text: 'mine' }]);
    expect(seen[0]).toMatchObject({ interceptor: 'one', call: { at: 'call', tenant_id: 'acme', tool: 'crm_find' } });
    await component.stop!();
  });

  it('sends results, and changes the parts that the service says', async () => {
    const seen: unknown[] = [];
    answer = (body) => (seen.push(body), [200, { allow: true, result: { text: 'shorter', output: null } }]);
    const { interceptor, component } = service();
    const next = async () => result({ text: 'long' });
    expect(await ask(interceptor, { call: at('result'), next })).toEqual({ text: 'shorter', output: null });
    expect(seen).toMatchObject([{ call: { at: 'result' }, result: { success: true, text: 'long' } }]);
    await component.stop!();
  });

  it.each<[string, [number, unknown]]>([
    ['another status', [500, { allow: true }]],
    ['no verdict', [200, {}]],
    ['a redirect', [302, { allow: true }]],
  ])('fails on %s', async (_, given) => {
    answer = () => given;
    const { interceptor, component } = service();
    await expect(ask(interceptor, {})).rejects.toThrow();
    await component.stop!();
  });

  it('reaches no private address that is not allowed', async () => {
    const configured = { one: { kind: 'http' as const, url: endpoint, at: ['call' as const] } };
    const faults = new ServiceFaults(clock);
    const { interceptors, component } = configuredInterceptors(configured, [], { clock, faults });
    await expect(ask(interceptors[0]!, {})).rejects.toMatchObject({ code: 'EGRESS_REFUSED' });
    await component.stop!();
  });
});

describe('an interceptor in a file', () => {
  let folder: string;
  afterEach(() => rm(folder, { recursive: true, force: true }));
  const inFile = async (intercept: string, settings: Partial<InterceptorSettings> = {}) => {
    folder = await mkdtemp(join(tmpdir(), 'toolfleet-interceptors-'));
    const file = join(folder, 'house.mjs');
    await writeFile(file, `export default { ${intercept} };`);
    return { file, ...build({ kind: 'module', file, at: ['call'], ...settings }) };
  };
  const DENY = 'intercept: ({ tool }) => ({ deny: `no ${tool}` })';

  it('runs in process', async () => {
    const { interceptor, component } = await inFile(DENY);
    await component.start!();
    expect(await ask(interceptor, {})).toEqual({ deny: 'no crm_find' });
  });

  it('changes copies: what others have of the answer stays unchanged', async () => {
    const source =
      'async intercept(call, next) { const answer = await next(); answer.output.list.push(2); return answer; }';
    const { interceptor, component } = await inFile(source);
    await component.start!();
    const shared = result({ output: { list: [1] } });
    expect(await ask(interceptor, { next: async () => shared })).toMatchObject({ output: { list: [1, 2] } });
    expect(shared.output).toEqual({ list: [1] });
  });

  it('keeps the digits of large integers', async () => {
    const { interceptor, component } = await inFile('intercept: () => ({ output: 9007199254740993n })');
    await component.start!();
    expect(await ask(interceptor, {})).toMatchObject({ output: 9007199254740993n });
  });

  it.each(['intercept: () => undefined', 'intercept: () => { const a = {}; return { output: (a.a = a) }; }'])(
    'must return JSON: %s',
    async (source) => {
      const { interceptor, component } = await inFile(source);
      await component.start!();
      await expect(ask(interceptor, {})).rejects.toThrow();
    },
  );

  it('is trusted: code that does not return holds up the process, whatever its time', async () => {
    const spins =
      'intercept(call, next) { const until = performance.now() + 200; while (performance.now() < until); return next(); }';
    const { interceptor, component } = await inFile(spins, { timeout_ms: 1 });
    await component.start!();
    const from = performance.now();
    const others = new Promise<number>((resolve) => setTimeout(() => resolve(performance.now() - from), 1));
    await ask(interceptor, {});
    expect(await others).toBeGreaterThanOrEqual(200);
  });

  it('is not loaded when others can write it: a fault, and an interceptor that fails', async () => {
    const { file, interceptor, component, faults } = await inFile(DENY);
    await chmod(file, 0o666);
    await component.start!();
    expect(JSON.stringify(faults.list())).toContain('can be written by other users');
    await expect(ask(interceptor, {})).rejects.toThrow('could not be loaded');
  });

  it('ends the start when it is mandatory and cannot be loaded', async () => {
    const { component } = await inFile('', { mandatory: true });
    await expect(component.start!()).rejects.toThrow('has no function intercept');
  });
});

it('watches the calls of its tools and toolsets, else all', () => {
  const watches = (settings: Partial<InterceptorSettings>, name: string, toolset?: string) =>
    build({ kind: 'content', ...settings }).interceptor.watches(aTool({ name }), toolset);
  expect(watches({}, 'adder')).toBe(true);
  expect([watches({ tools: ['crm_*'] }, 'crm_find'), watches({ tools: ['crm_*'] }, 'adder')]).toEqual([true, false]);
  const names = ['prompt:crm_review', 'skill:crm_refunds', 'resource:crm', 'resource:crm2', 'prompt:review'];
  expect(names.map((name) => watches({ tools: ['crm_*'] }, name))).toEqual([true, true, true, false, false]);
  expect(watches({ tools: ['resource:*'] }, 'resource:crm')).toBe(true);
  const narrow = { tools: ['crm_*'], toolsets: ['sales'] };
  expect([watches(narrow, 'adder', 'sales'), watches(narrow, 'adder', 'other')]).toEqual([true, false]);
});
