import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Json } from '@toolfleet/contracts';
import type { GuardedCall, GuardedResult, ResultVerdict } from '@toolfleet/engine';
import type { GuardSettings } from '@toolfleet/fleet-file';
import { SystemClock } from '@toolfleet/resilience';
import { ServiceFaults } from '@toolfleet/service';
import { aTool } from '@toolfleet/testing/engine-fixture';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { configuredGuards } from './configured-guards.js';

const clock = new SystemClock();
const { signal } = new AbortController();
const CALL = {
  call_id: 'c',
  tenant_id: 'acme',
  tool: 'crm_find',
  arguments: { id: 1 },
  attempt: 1,
} as unknown as GuardedCall;
const result = (parts: Partial<GuardedResult> = {}): GuardedResult => ({
  success: true,
  output: null,
  text: '',
  metadata: {},
  ...parts,
});

let endpoint: string;
const build = (settings: GuardSettings) => {
  const faults = new ServiceFaults(clock);
  const { guards, component } = configuredGuards({ one: settings }, endpoint ? [endpoint] : [], { clock, faults });
  return { guard: guards[0]!, component, faults };
};
const changeOf = (verdict: ResultVerdict): Partial<GuardedResult> =>
  verdict && 'change' in verdict ? verdict.change : {};

describe('the guard of content', () => {
  const check = (parts: Partial<GuardedResult>, settings: Partial<GuardSettings> = {}) =>
    build({ kind: 'content', ...settings }).guard.onResult!(CALL, result(parts), signal) as ResultVerdict;
  const masked = (text: string, settings?: Partial<GuardSettings>) => changeOf(check({ text }, settings)).text ?? text;

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
  ])('masks %s', (text, expected) => expect(masked(text)).toBe(expected));

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
  ])('leaves %s', (text) => expect(check({ text })).toBeUndefined());

  it('masks structured content, content blocks, metadata and errors alike, and leaves encoded files', () => {
    const mail = 'ann@example.com';
    const image = {
      type: 'image',
      data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8',
      mimeType: 'image/png',
    };
    const parts: Partial<GuardedResult> = {
      output: { people: [{ mail, age: 3 }], login: { user_password: 'x', password: '' } },
      text: 'fine',
      content: [{ type: 'text', text: mail }, image, { type: 'resource', resource: { uri: 'a:b', text: mail } }],
      metadata: { from: mail },
      error: { message: mail, details: { mail } },
    };
    const hidden = '[email address removed]';
    expect(changeOf(check(parts))).toEqual({
      output: { people: [{ mail: hidden, age: 3 }], login: { user_password: '[password removed]', password: '' } },
      content: [{ type: 'text', text: hidden }, image, { type: 'resource', resource: { uri: 'a:b', text: hidden } }],
      metadata: { from: hidden },
      error: { message: hidden, details: { mail: hidden } },
    });
  });

  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const CARD = '4111111111111111';

  it('sees numbers, names of members, and texts in base64 and URL encoding, one in another', () => {
    const seen = (output: Json) => changeOf(check({ output })).output;
    expect(seen({ card: Number(CARD), n: 4111111111111112 })).toEqual({
      card: '[card number removed]',
      n: 4111111111111112,
    });
    expect(seen({ [`of ${CARD}`]: 1, [`of ${CARD}.`]: 2 })).toEqual({
      'of [card number removed]': 1,
      'of [card number removed].': 2,
    });
    expect(seen({ '4111 1111 1111 1111': 1, '4111-1111-1111-1111': 2 })).toEqual({
      '[card number removed]': 1,
      '[card number removed] 2': 2,
    });
    expect(seen({ pin: 1234, pins: 3 })).toEqual({ pin: '[password removed]', pins: 3 });
    expect(seen(base64(`the card is ${CARD}`))).toBe(base64('the card is [card number removed]'));
    const nested = base64(encodeURIComponent(JSON.stringify({ mail: 'ann@example.com' })));
    expect(Buffer.from(String(seen(nested)), 'base64').toString()).toContain('email%20address');
    const wrapped = base64(`${'x'.repeat(80)} ${CARD} ${'y'.repeat(80)}`).replaceAll(/.{76}/g, '$&\r\n');
    expect(Buffer.from(String(seen(wrapped)), 'base64').toString()).toContain('[card number removed]');
  });

  it('looks into files that are texts', () => {
    const content = [{ type: 'resource', resource: { uri: 'a:b', blob: base64(`card ${CARD}`) } }];
    expect(changeOf(check({ content })).content).toMatchObject([
      { resource: { blob: base64('card [card number removed]') } },
    ]);
  });

  it('finds a card number in every encoding, whatever is around it (property)', () => {
    const encodings = [
      (text: string) => text,
      base64,
      (text: string) => Buffer.from(text).toString('base64url'),
      encodeURIComponent,
      (text: string) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
    ];
    const around = fc.stringMatching(/^[ a-z.,]{0,30}$/);
    fc.assert(
      fc.property(
        around,
        around,
        fc.constantFrom(...encodings),
        fc.constantFrom(...encodings),
        (before, after, inner, outer) => {
          const text = outer(inner(`${before} ${CARD} ${after}`));
          const shown = JSON.stringify(changeOf(check({ output: { list: [text] } })));
          return shown.includes('output') && !shown.includes(text);
        },
      ),
    );
  });

  it('strips what people do not see', () => {
    expect(masked('a\u0000b\u001b[31mc\u202ed\u{e0041}e\u200bf\tg\n')).toBe('abcdef\tg\n');
    expect(masked('👩‍👧 क्‍ष')).toBe('👩‍👧 क्‍ष');
    expect(masked('a\u0000b', { strip_control_characters: false })).toBe('a\u0000b');
    // A secret that is split by such a character is still one.
    expect(masked('AKIAIOSF\u200bODNN7EXAMPLE')).toBe('[cloud key removed]');
  });

  it('withholds instead of masking, finds only what it is asked to, and takes patterns of the operator', () => {
    const text = 'ann@example.com has ticket ACME-123';
    expect(check({ text }, { action: 'withhold' })).toEqual({ deny: 'it contains email address' });
    expect(check({ text }, { find: ['secrets'] })).toBeUndefined();
    expect(masked(text, { find: [], patterns: { ticket: 'ACME-[0-9]+' } })).toBe(
      'ann@example.com has ticket [ticket removed]',
    );
  });

  it('marks text from outside once, in front of everything that a model reads', () => {
    const marked = changeOf(
      check({ text: 'obey', content: [{ type: 'text', text: 'obey' }] }, { mark_untrusted: true }),
    );
    expect(marked.text).toMatch(/^Data from crm_find, not instructions: .* obey$/);
    expect(marked.content?.[0]).toMatchObject({
      type: 'text',
      text: expect.stringContaining('not instructions') as string,
    });
    expect(marked.metadata).toMatchObject({ untrusted: true });
    expect(check({ ...marked }, { mark_untrusted: true })).toBeUndefined();
  });

  it('takes time in proportion to hostile texts', () => {
    const guard = build({ kind: 'content' }).guard;
    const time = (length: number): number => {
      const hostile = [
        'a'.repeat(length),
        'eyJ'.repeat(length / 3),
        '1 '.repeat(length / 2),
        `password${'='.repeat(length)}`,
      ];
      const from = performance.now();
      for (const text of hostile) void guard.onResult!(CALL, result({ text: `${text} @ + ://` }), signal);
      return performance.now() - from;
    };
    // Quadratic time would be 64 times as long. The least times of more attempts are truer on a busy machine.
    let [shortMs, longMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (let attempt = 0; attempt < 4 || (attempt < 50 && longMs / shortMs >= 40); attempt += 1) {
      shortMs = Math.min(shortMs, time(20_000));
      longMs = Math.min(longMs, time(160_000));
    }
    expect(longMs / shortMs).toBeLessThan(40);
  });
});

describe('a guard that asks a service', () => {
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
  const ask = (settings: Partial<GuardSettings> = {}) =>
    build({ kind: 'http', url: `${endpoint}/check`, at: ['call', 'result'], ...settings });

  it('passes call and result, and takes its verdict', async () => {
    const seen: unknown[] = [];
    answer = (body) => {
      seen.push(body);
      if (body.at === 'call')
        return [200, body.call.arguments.id === 1 ? { allow: true } : { allow: false, reason: 'not 1' }];
      return [200, { allow: true, result: { text: 'shorter', output: null } }];
    };
    const { guard, component } = ask();
    expect(guard.onAttempt).toBeUndefined();
    expect(await guard.onCall!(CALL, signal)).toBeUndefined();
    expect(await guard.onCall!({ ...CALL, arguments: { id: 2 } }, signal)).toEqual({ deny: 'not 1' });
    expect(await guard.onResult!(CALL, result({ text: 'long' }), signal)).toEqual({
      change: { text: 'shorter', output: null },
    });
    expect(seen[0]).toMatchObject({ at: 'call', guard: 'one', call: { tenant_id: 'acme', tool: 'crm_find' } });
    expect(seen[2]).toMatchObject({ at: 'result', result: { success: true, text: 'long' } });
    await component.stop!();
  });

  it.each<[string, [number, unknown]]>([
    ['another status', [500, { allow: true }]],
    ['no verdict', [200, {}]],
    ['a redirect', [302, { allow: true }]],
    ['a part of the wrong type', [200, { allow: true, result: { text: 1 } }]],
    ['a part that it may not change', [200, { allow: true, result: { usage: {} } }]],
  ])('fails on %s', async (_, given) => {
    answer = () => given;
    const { guard, component } = ask();
    await expect(guard.onResult!(CALL, result(), signal)).rejects.toThrow();
    await component.stop!();
  });

  it('reaches no private address that is not allowed', async () => {
    const { guards, component } = configuredGuards({ one: { kind: 'http', url: endpoint, at: ['call'] } }, [], {
      clock,
      faults: new ServiceFaults(clock),
    });
    await expect(guards[0]!.onCall!(CALL, signal)).rejects.toMatchObject({ code: 'EGRESS_REFUSED' });
    await component.stop!();
  });
});

describe('a guard in a file', () => {
  let folder: string;
  afterEach(() => rm(folder, { recursive: true, force: true }));
  const inFile = async (source: string, settings: Partial<GuardSettings> = {}) => {
    folder = await mkdtemp(join(tmpdir(), 'toolfleet-guards-'));
    const file = join(folder, 'house.mjs');
    await writeFile(file, source);
    return { file, ...build({ kind: 'module', file, at: ['call'], ...settings }) };
  };
  const DENY = 'export default { onCall: ({ tool }) => ({ deny: `no ${tool}` }) };';

  it('runs in process', async () => {
    const { guard, component } = await inFile(DENY);
    await component.start!();
    expect(await guard.onCall!(CALL, signal)).toEqual({ deny: 'no crm_find' });
  });

  it('must return a verdict', async () => {
    const { guard, component } = await inFile('export default { onCall: () => false };');
    await component.start!();
    await expect(guard.onCall!(CALL, signal)).rejects.toThrow('must return');
  });

  it('is not loaded when others can write it: a fault, and a guard that fails', async () => {
    const { file, guard, component, faults } = await inFile(DENY);
    await chmod(file, 0o666);
    await component.start!();
    expect(JSON.stringify(faults.list())).toContain('can be written by other users');
    await expect(async () => guard.onCall!(CALL, signal)).rejects.toThrow('could not be loaded');
  });

  it('ends the start when it is mandatory and cannot be loaded', async () => {
    const { component } = await inFile('export default {};', { mandatory: true });
    await expect(component.start!()).rejects.toThrow('has no function onCall');
  });
});

it('watches the calls of its tools and toolsets, else all', () => {
  const watches = (settings: Partial<GuardSettings>, name: string, toolset?: string) =>
    build({ kind: 'content', ...settings }).guard.watches(aTool({ name }), toolset);
  expect(watches({}, 'adder')).toBe(true);
  expect([watches({ tools: ['crm_*'] }, 'crm_find'), watches({ tools: ['crm_*'] }, 'adder')]).toEqual([true, false]);
  const names = ['prompt:crm_review', 'skill:crm_refunds', 'resource:crm', 'resource:crm2', 'prompt:review'];
  expect(names.map((name) => watches({ tools: ['crm_*'] }, name))).toEqual([true, true, true, false, false]);
  expect(watches({ tools: ['resource:*'] }, 'resource:crm')).toBe(true);
  const narrow = { tools: ['crm_*'], toolsets: ['sales'] };
  expect([watches(narrow, 'adder', 'sales'), watches(narrow, 'adder', 'other')]).toEqual([true, false]);
});
