import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@toolfleet/contracts';
import type { AuditRecord } from '@toolfleet/engine';
import { CallBodies, type BodySettings } from './call-bodies.js';

interface Ended {
  tenantId?: string;
  args?: JsonObject;
  schema?: JsonObject;
  output?: Json;
  kind?: string;
  more?: Partial<AuditRecord>;
}

function ended({ tenantId = 'acme', args = {}, schema = {}, output = { ok: true }, kind = 'builtin', more }: Ended) {
  const tool = { name: 'crm_pay', input_schema: schema, binding: { kind } };
  const request = { target: { toolName: 'crm_pay' }, input: { rawArguments: args }, principal: { tenantId } };
  return {
    ok: true,
    call: { request, tool },
    result: { ok: true, output, text: '' },
    ...more,
  } as unknown as AuditRecord;
}
const failed = (code: string, message: string, more: object = {}): Partial<AuditRecord> =>
  ({
    ok: false,
    code,
    error: message,
    result: { ok: false, output: null, text: '', failure: { code, message, ...more } },
  }) as never;
const kept = (call: Ended, settings: Partial<BodySettings> = {}) =>
  new CallBodies({ keep: 'all', ...settings }).of(ended(call))?.body;

describe('what is kept of a call', () => {
  it('follows the first rule that matches its tenant and tool', () => {
    const keeps = (settings: BodySettings, call: Ended = {}) => new CallBodies(settings).of(ended(call)) !== undefined;
    const rules: BodySettings['rules'] = [
      { tools: ['crm_*'], tenants: ['globex'], keep: 'off' },
      { tenants: ['acme', 'globex'], keep: 'all' },
    ];
    expect(keeps({ keep: 'off', rules })).toBe(true);
    expect(keeps({ keep: 'all', rules }, { tenantId: 'globex' })).toBe(false);
    expect(keeps({ keep: 'failures', rules }, { tenantId: 'other' })).toBe(false);
    const failure = { tenantId: 'other', more: failed('TOOL_ERROR', 'no') };
    expect(keeps({ keep: 'failures', rules }, failure)).toBe(true);
    expect(
      keeps({ keep: 'failures' }, { more: { ok: false, code: 'RATE_LIMITED', error: 'later', result: undefined } }),
    ).toBe(true);
    expect([{ keep: 'off' as const }, { keep: 'off' as const, rules }].map((one) => new CallBodies(one).isOn)).toEqual([
      false,
      true,
    ]);
  });

  it('has arguments and result, and of a failure its errors and what the upstream answered', () => {
    expect(kept({ args: { a: 1 }, output: [1] })).toEqual({ arguments: { a: 1 }, result: { output: [1] } });
    const refused = { ok: false, code: 'RATE_LIMITED', error: 'later', result: undefined } as const;
    expect(kept({ args: { a: 1 }, more: refused })).toEqual({
      arguments: { a: 1 },
      errors: [{ code: 'RATE_LIMITED', message: 'later' }],
    });
    const more = failed('UPSTREAM_ERROR', 'HTTP 500: broken', {
      facts: { status: 500 },
      details: { http_status: 500 },
    });
    (more.result as { output: Json }).output = { reason: 'broken' };
    expect(kept({ kind: 'openapi', more })).toEqual({
      arguments: {},
      errors: [{ code: 'UPSTREAM_ERROR', message: 'HTTP 500: broken', details: { http_status: 500 } }],
      upstream: { http_status: 500, answer: { reason: 'broken' } },
    });
  });
});

describe('redaction', () => {
  const schema: JsonObject = {
    properties: {
      user: { type: 'string' },
      pin: { type: 'string', writeOnly: true },
      cards: { type: 'array', items: { $ref: '#/$defs/card' } },
      codes: { type: 'array', items: { format: 'password' } },
    },
    $defs: { card: { anyOf: [{ properties: { cvc: { format: 'password' }, next: { $ref: '#/$defs/card' } } }] } },
  };

  it('hides what the schema marks as secret, at any depth, and names that are always secret', () => {
    const args = {
      user: 'ann',
      pin: '1234',
      codes: ['a', 'b'],
      cards: [{ cvc: 77, next: { cvc: 78, name: 'v' } }],
      Password: 'x',
    };
    expect(kept({ schema, args })).toMatchObject({
      arguments: {
        user: 'ann',
        pin: '[redacted]',
        codes: '[redacted]',
        cards: [{ cvc: '[redacted]', next: { cvc: '[redacted]', name: 'v' } }],
        Password: '[redacted]',
      },
      redacted: ['arguments'],
    });
  });

  it('also where arguments do not have the shape of the schema, or are JSON in a text', () => {
    expect(kept({ schema, args: { crm_pay: { pin: '1234' } } })?.arguments).toEqual({ crm_pay: { pin: '[redacted]' } });
    expect(kept({ schema, args: { body: '{"pin": "1234", "user": "ann"}' } })?.arguments).toEqual({
      body: '{"pin": "[redacted]", "user": "ann"}',
    });
    expect(kept({ schema, args: { body: '{"pin": "1234", "user' } })?.arguments).toEqual({
      body: '{"pin": "[redacted]", "user',
    });
    expect(kept({ schema, args: { body: '{"user": "ann"}  ' } })?.arguments).toEqual({ body: '{"user": "ann"}  ' });
  });

  it('hides configured paths of the tools they name, in arguments and results', () => {
    const redact = { '*': ['card.number'], 'crm_*': ['notes'], 'web_*': ['ann'] };
    const value = { ann: 1, number: 2, card: { number: 3 }, cards: [{ card: [{ number: 4 }] }], notes: { deep: 5 } };
    const hidden = {
      ann: 1,
      number: 2,
      card: { number: '[redacted]' },
      cards: [{ card: [{ number: '[redacted]' }] }],
      notes: '[redacted]',
    };
    expect(kept({ args: value, output: value }, { redact })).toEqual({
      arguments: hidden,
      result: { output: hidden },
      redacted: ['arguments', 'result'],
    });
  });

  const SECRET = 'hunter22hunter22';
  const AROUND: Record<string, (secret: string) => Json> = {
    camelCase: (secret) => ({ clientSecret: secret }),
    'a list': (secret) => ({ passwords: [{ db_password: [secret] }] }),
    'text before JSON': (secret) => `Result: {"a": 1, "apiKey": "${secret}"} done`,
    'JSON that is cut': (secret) => `{"list": [1, 2, {"access_token": "${secret}`,
    'JSON in JSON in JSON': (secret) => JSON.stringify({ a: JSON.stringify({ b: JSON.stringify({ token: secret }) }) }),
    'a header': (secret) => `GET / HTTP/1.1\r\nAuthorization: Bearer ${secret}\r\nAccept: */*`,
    'a cookie': (secret) => `Set-Cookie: sid=${secret}; HttpOnly`,
    'a query': (secret) => `https://x.example/?a=1&token=${secret}&b=2`,
    'an assignment': (secret) => `export DB_PASSWORD=${secret}`,
    YAML: (secret) => `db:\n  password: ${secret}\n  port: 1`,
    'a nested member in a text': (secret) => `x {"credentials": {"user": "ann", "id": ["${secret}"]}, "y": 1}`,
    'a member before': (secret) => ({ note: `it is ${secret}`, password: secret }),
    'behind 40 KB': (secret) => ({ rows: 'x'.repeat(40_000), password: secret, note: secret }),
    'a text behind 40 KB': (secret) => `${'x'.repeat(40_000)} password=${secret}`,
    'another name of the schema': (secret) => ({ 'P-I-N': secret }),
  };

  it.each(Object.entries(AROUND))('finds a secret: %s', (_what, around) => {
    // The value is found by its place alone, and nothing that repeats it shows it.
    const body = kept({
      schema,
      args: { value: around(SECRET) },
      output: { echo: `so ${SECRET}`, said: around(SECRET) },
    });
    expect(JSON.stringify(body)).not.toContain(SECRET);
    expect(body?.result).toMatchObject({ output: { echo: 'so [redacted]' } });
  });

  it.each([
    `ghp_${'a1'.repeat(18)}`,
    'AKIAIOSFODNN7EXAMPLE',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl',
    '-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----',
  ])('finds a secret by its form: %s', (secret) => {
    expect(kept({ args: { note: `see ${secret}, please` } })?.arguments).toEqual({ note: 'see [redacted], please' });
  });

  it('finds a random value behind a label, and leaves others', () => {
    const key = 'kX9v2LmQ7rT4wZ8pB3nC6yH1';
    const args = {
      key,
      cache_key: 'customers/2026/march',
      next_page_token: `n${key.slice(1)}`,
      has_password: true,
      tokens: 5,
    };
    expect(kept({ args })?.arguments).toEqual({ ...args, key: '[redacted]' });
  });

  it('hides numbers that repeat a hidden one, and configured paths in texts', () => {
    expect(kept({ args: { otp: 12_345_678 }, output: { n: 12_345_678, m: 5 } })?.result).toEqual({
      output: { n: '[redacted]', m: 5 },
    });
    const text = '{"number": 1, "card": {"number": 411, "name": "x"}}';
    expect(kept({ args: { text } }, { redact: { '*': ['card.number'] } })?.arguments).toEqual({
      text: '{"number": 1, "card": {"number": "[redacted]", "name": "x"}}',
    });
  });

  it('shows no hidden value, whatever surrounds it (property)', () => {
    const json = fc.jsonValue({ maxDepth: 4 });
    const names = fc.constantFrom('clientSecret', 'api-key', 'PASSWORD', 'x_auth_token', 'otp', 'pin');
    fc.assert(
      fc.property(json, json, names, fc.boolean(), fc.boolean(), (before, after, name, isText, isDeep) => {
        const object = { before, [name]: isDeep ? [{ x: SECRET }] : SECRET, after } as JsonObject;
        const value: Json = isText ? `said ${JSON.stringify(object)}` : object;
        return !JSON.stringify(
          kept({ args: { value }, output: { value, echo: SECRET } }, { max_bytes: 2_000 }),
        ).includes(SECRET);
      }),
    );
  });

  it('hides a secret argument where an error or result repeats it', () => {
    const more = failed('TOOL_ERROR', 'no user hunter22 here');
    expect(kept({ schema, args: { pin: 'hunter22' }, more })?.errors).toEqual([
      { code: 'TOOL_ERROR', message: 'no user [redacted] here' },
    ]);
  });
});

describe('the size of what is kept', () => {
  const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

  it('is bounded for large texts, long lists and deep values, and says which parts were cut', () => {
    let deep: Json = 'end';
    for (let level = 0; level < 5_000; level += 1) deep = level % 2 ? [deep] : { in: deep };
    const values: Json[] = [
      'x'.repeat(1e6),
      '€'.repeat(1e6),
      Array.from({ length: 1e5 }, (_, at) => at),
      { a: { b: 'y'.repeat(1e5) } },
    ];
    for (const value of values) {
      const body = kept({ args: { value }, output: value }, { max_bytes: 10_000 })!;
      expect(body.cut).toEqual(['arguments', 'result']);
      expect(bytesOf(body)).toBeLessThan(11_000);
      expect(bytesOf(body.arguments)).toBeGreaterThan(3_000);
      expect(bytesOf(body.result)).toBeGreaterThan(3_000);
    }
    expect(kept({ output: deep })?.cut).toEqual(['result']);
  });

  it('is not reached by small calls', () => {
    const body = kept({ args: { text: 'a'.repeat(1_000) }, output: { text: 'b'.repeat(1_000) } }, { max_bytes: 3_000 });
    expect(body).toEqual({ arguments: { text: 'a'.repeat(1_000) }, result: { output: { text: 'b'.repeat(1_000) } } });
  });
});
