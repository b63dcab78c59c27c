/**
 * Random messages at the four entries of a tenant: HTTP, MCP, NATS and the questions of its programs. They are close to valid ones, so
 * that many pass the first checks. No process ends, none is answered with an internal error, and the gateway stays within a pod
 * of 1 GiB. `ABUSE_SEED` gives other messages.
 */
import * as fc from 'fast-check';
import { HEADERS, SUBJECTS } from '@toolfleet/contracts/subjects';
import { PATIENCE_MS } from '@toolfleet/testing';
import { NatsClient } from '@toolfleet/transport';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AbusedFleet, FULL_LENGTH, memoryMb } from './abused-fleet.js';

const MESSAGES = FULL_LENGTH ? 25_000 : 250;
const SEED = Number(process.env['ABUSE_SEED'] ?? 1);
/** Messages on their way at once. */
const WAVE = 25;
const HEAP_MB = 768;
const MIB_OF_POD = 1_024;

const LETTERS = [
  'a',
  'k',
  '0',
  ' ',
  '"',
  '\\',
  '/',
  '%',
  '.',
  ':',
  '\n',
  '\u0000',
  '\ud800',
  '\u202e',
  'é',
  '😀',
  '{',
  '[',
];
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom(...LETTERS), maxLength: 40 }),
  fc.constantFrom(
    '',
    '__proto__',
    'constructor',
    '../..',
    '%2e%2e',
    '${PATH}',
    'a'.repeat(20_000),
    '-1',
    '1e400',
    'null',
  ),
);
const FIELDS = [
  ...[
    'name',
    'arguments',
    'expression',
    'text',
    'operation',
    'pattern',
    'mode',
    'select',
    'cache',
    'timeout_ms',
    'dry_run',
  ],
  ...[
    'idempotency_key',
    'session_id',
    'calls',
    'parallel',
    'max_parallel',
    'stream',
    'keep_aside',
    'no_retry',
    'code',
    'params',
  ],
  ...[
    'id',
    'method',
    'jsonrpc',
    'cursor',
    '_meta',
    'progressToken',
    'protocolVersion',
    'uri',
    'requestId',
    'n',
    'op',
    'tool',
  ],
];
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: false },
    text,
    fc.oneof(fc.integer(), fc.double(), fc.boolean(), fc.constant(null), fc.constantFrom(2 ** 53, 1e308, -0)),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...FIELDS) }, text), tie('value'), { maxKeys: 5 }),
    fc.constantFrom<unknown>(
      Array.from({ length: 3_000 }, (_, index) => ({ index })),
      Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`k${index}`, index])),
      JSON.parse(`${'['.repeat(150)}${']'.repeat(150)}`),
    ),
  ),
}));

/** A valid value in which some fields are replaced, removed or added. */
function nearly(valid: fc.Arbitrary<Record<string, unknown>>): fc.Arbitrary<Record<string, unknown>> {
  const changes = fc.array(fc.tuple(fc.constantFrom(...FIELDS), fc.option(value)), { maxLength: 3 });
  return fc.tuple(valid, changes).map(([object, changed]) => {
    const copy = { ...object };
    for (const [name, other] of changed) {
      if (other === null) delete copy[name];
      else copy[name] = other;
    }
    return copy;
  });
}
const TOOLS = ['calculator', 'text_process', 'json_query', 'regex_find', 'run_program', 'nothing'];
const args = nearly(fc.record({ expression: text, text, operation: fc.constantFrom('count', 'case', 'hash', 'diff') }));
const call = nearly(fc.record({ name: fc.constantFrom(...TOOLS), arguments: args }));
const json = (message: unknown): string => JSON.stringify(message);
/** The bytes of a message: mostly its JSON, sometimes cut or with other bytes in it. */
const bytesOf = (message: fc.Arbitrary<unknown>): fc.Arbitrary<Buffer> =>
  fc.oneof(
    { weight: 8, arbitrary: message.map((each) => Buffer.from(json(each))) },
    {
      weight: 1,
      arbitrary: fc.tuple(message, fc.nat(400)).map(([each, at]) => Buffer.from(json(each)).subarray(0, at)),
    },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 500 }).map((bytes) => Buffer.from(bytes)) },
  );

let abused: AbusedFleet;
let maximumMb = 0;
let sampler: NodeJS.Timeout;
beforeAll(async () => {
  abused = await AbusedFleet.start({
    services: { gateway: 1, registry: 1, budget: 1, 'builtin-executor': 1, 'python-sandbox': 1 },
    tools: ['calculator', 'text_process', 'run_program'],
    env: { BUILTIN_TOOLSETS: 'compute' },
    envOf: { gateway: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` } },
    config: { tool_settings: { run_program: { rate_limit: 0 }, text_process: { rate_limit: 0 } } },
  });
  const { pid } = abused.fleet.process('gateway');
  sampler = setInterval(() => (maximumMb = Math.max(maximumMb, memoryMb(pid))), 200);
});
afterAll(async () => {
  clearInterval(sampler);
  await abused?.stop();
});

/**
 * Sends messages in waves.
 * @param send resolves to a description of an answer that must not be, such as an internal error
 */
async function fuzz<T>(messages: fc.Arbitrary<T>, count: number, send: (message: T) => Promise<string | undefined>) {
  const wrong: string[] = [];
  await abused.survives(async () => {
    const all = fc.sample(messages, { numRuns: count, seed: SEED });
    for (let at = 0; at < all.length; at += WAVE)
      wrong.push(...(await Promise.all(all.slice(at, at + WAVE).map(send))).filter((each) => each !== undefined));
  });
  console.log(JSON.stringify({ messages: count, memoryMb: { gateway: maximumMb } }));
  expect(wrong).toEqual([]);
  expect(maximumMb).toBeLessThan(MIB_OF_POD);
}

interface Request {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

/** Describes a request that got no answer, or an internal error. */
async function sendHttp({ method, path, headers, body }: Request): Promise<string | undefined> {
  const url = abused.fleet.url() + path;
  const authorization = `Bearer ${abused.fleet.keys['globex']!}`;
  const response = await fetch(url, {
    method,
    headers: { authorization, 'content-type': 'application/json', ...headers },
    ...(method === 'GET' || method === 'HEAD' ? {} : { body: new Uint8Array(body) }),
    redirect: 'manual',
    signal: AbortSignal.timeout(PATIENCE_MS),
  }).catch((error: Error) => error);
  const shown = `${method} ${path.slice(0, 200)} ${json(headers)} ${body.toString().slice(0, 500)}`;
  if (response instanceof Error) return `${shown}: ${response.message}: ${String(response.cause)}`;
  if (response.status !== 500) {
    await response.body?.cancel();
    return undefined;
  }
  return `${shown}: ${(await response.text()).slice(0, 500)}`;
}

const headerText = fc.string({
  unit: fc.constantFrom('a', '0', '-', ',', ';', '=', '"', '*', ' ', '.', '/'),
  maxLength: 30,
});
const headers = fc.dictionary(
  fc.constantFrom(
    'accept',
    'content-type',
    'x-project-id',
    'idempotency-key',
    'traceparent',
    'cache-control',
    'last-event-id',
  ),
  headerText,
  { maxKeys: 2 },
);

describe('messages that are nearly valid', () => {
  it('over HTTP', async () => {
    const { body } = await abused.fleet.ask({ path: '/openapi.json' });
    const routes = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })),
    );
    const part = fc.oneof(fc.constantFrom(...TOOLS, 'execute', 'globex'), text).map(encodeURIComponentSafely);
    const request = fc
      .record({ route: fc.constantFrom(...routes), parts: fc.array(part, { minLength: 4, maxLength: 4 }) })
      .chain(({ route, parts }) => {
        let index = 0;
        const path = route.path.replaceAll(/\{[^}]*\}/g, () => parts[index++ % parts.length] || 'x');
        const query = fc.option(
          fc.dictionary(fc.constantFrom('limit', 'cursor', 'toolset', 'query', 'from', 'stream', 'visibility'), text, {
            maxKeys: 2,
          }),
        );
        return fc.record({
          method: fc.constant(route.method),
          path: query.map((fields) => (fields ? `${path}?${new URLSearchParams(fields).toString()}` : path)),
          headers,
          body: bytesOf(
            fc.oneof(
              call,
              fc.record({ arguments: args }),
              fc.record({ calls: fc.array(call, { maxLength: 3 }) }),
              value,
            ),
          ),
        });
      });
    await fuzz(request, MESSAGES, sendHttp);
  });

  it('over MCP', async () => {
    const METHODS = [
      ...[
        'initialize',
        'tools/list',
        'tools/call',
        'tools/call',
        'ping',
        'notifications/cancelled',
        'notifications/initialized',
      ],
      ...[
        'tasks/get',
        'tasks/result',
        'tasks/cancel',
        'resources/list',
        'resources/read',
        'server/discover',
        'completion/complete',
      ],
      ...['logging/setLevel', 'subscriptions/listen', 'prompts/get'],
    ];
    const params = fc.oneof(nearly(call), value);
    const message = nearly(
      fc.record({
        jsonrpc: fc.constant('2.0'),
        id: fc.oneof(fc.integer(), text),
        method: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...METHODS) }, text),
        params,
      }),
    );
    const request = fc.record({
      method: fc.constant('POST'),
      path: fc.constant('/mcp'),
      headers: fc
        .tuple(headers, fc.constantFrom('2025-06-18', '2025-11-25', '2026-07-28', 'x', ''))
        .map(([more, version]): Record<string, string> => ({
          ...more,
          accept: 'application/json, text/event-stream',
          ...(version === '' ? {} : { 'mcp-protocol-version': version }),
        })),
      body: bytesOf(fc.oneof({ weight: 5, arbitrary: message }, fc.array(message, { maxLength: 3 }))),
    });
    await fuzz(request, MESSAGES, sendHttp);
  });

  it('over NATS', async () => {
    const client = await NatsClient.connect({ url: abused.fleet.nats.url, name: 'fuzz' });
    const subjects = [SUBJECTS.toolCall, SUBJECTS.toolBatch, SUBJECTS.toolList, SUBJECTS.toolCancel];
    const message = fc.record({
      subject: fc.constantFrom(...subjects, ...subjects.map((subject) => `${subject}.globex`)),
      body: fc.oneof({ weight: 6, arbitrary: call }, fc.record({ calls: fc.array(call, { maxLength: 3 }) }), value),
      remaining: fc.constantFrom('30000', '1000', 'x', '-1', ''),
    });
    await fuzz(message, MESSAGES, async ({ subject, body, remaining }) => {
      const authorization = `Bearer ${abused.fleet.keys['globex']!}`;
      const more: Record<string, string> = remaining === '' ? {} : { [HEADERS.remainingMs]: remaining };
      const answer = await client
        .request(subject, body, { timeoutMs: 60_000, headers: { [HEADERS.authorization]: authorization, ...more } })
        .catch((error: { code?: string; message: string }) => error);
      const { code } = answer as { code?: string };
      return code === 'INTERNAL' ? `${subject} ${json(body).slice(0, 500)}: ${json(answer).slice(0, 500)}` : undefined;
    });
    await client.close();
  });

  it('as questions of programs', async () => {
    const QUESTIONS = 10;
    const question = nearly(
      fc.record({
        n: fc.oneof({ weight: 8, arbitrary: fc.constant(undefined) }, fc.nat(20), value),
        op: fc.oneof(
          { weight: 6, arbitrary: fc.constantFrom('call', 'call', 'call', 'search', 'describe', 'gather') },
          text,
        ),
        tool: fc.constantFrom(...TOOLS.filter((name) => name !== 'run_program')),
        arguments: args,
        query: text,
      }),
    );
    const program = fc.array(bytesOf(question), { minLength: QUESTIONS, maxLength: QUESTIONS });
    await fuzz(program, MESSAGES / QUESTIONS, async (questions) => {
      const lines = questions.map((each, index) => numbered(each, index + 1).toString('base64'));
      const code = `
import json, base64
os = json.decoder.scanner.re.enum.sys.modules["os"]
fd = os.open("/dev/tools", os.O_RDWR)
for line in ${json(lines)}:
    line = base64.b64decode(line) + b"\\n"
    while line: line = line[os.write(fd, line):]
os.read(fd, 1 << 16)`;
      const { status, text: shown } = await abused.attack({
        path: '/api/v1/tools/run_program/execute',
        // A kept connection, idle since the last test, may be one that the gateway is just closing: the rest of a large body then gets EPIPE.
        headers: { connection: 'close' },
        body: { arguments: { code, max_calls: 50 }, timeout_ms: 5_000 },
      });
      return status === 500 || shown.includes('"INTERNAL"') ? `${json(lines)}: ${shown.slice(0, 500)}` : undefined;
    });
  });
});

/** Gives a question that is a JSON object without a number the next one. */
function numbered(question: Buffer, n: number): Buffer {
  try {
    const parsed = JSON.parse(question.toString()) as unknown;
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed))
      return Buffer.from(json({ n, ...parsed }));
  } catch {
    // Sent unchanged.
  }
  return question;
}

/** Lone surrogates cannot be encoded. */
function encodeURIComponentSafely(part: string): string {
  return encodeURIComponent(part.toWellFormed()).slice(0, 4_000);
}
