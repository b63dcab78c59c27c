import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CALCULATOR, RESULT, folder, routes, run, seen, sentArguments, url } from '../fleetctl.fixture.js';

describe('call', () => {
  it('suggests a similar name for typos', async () => {
    const strict = { ...CALCULATOR, parameters: { ...CALCULATOR.parameters, additionalProperties: false } };
    routes.set('GET /api/v1/tools/calculator', () => ({ status: 200, body: strict }));
    expect(await run(['call', 'calculator', '--expresion', '1'])).toMatchObject({
      code: 2,
      error: expect.stringContaining('has no argument --expresion; did you mean --expression?'),
    });
    expect((await run(['describe', 'calcualtor'])).error).toContain('did you mean calculator?');
    expect((await run(['call', 'othr', 'x=1'])).error).toContain('did you mean other?');
    expect((await run(['cal', 'calculator'])).error).toContain('did you mean call?');
    expect((await run(['usage', '--form', '2026-01-01'])).error).toContain('did you mean --from?');
    expect((await run(['xyzzy'])).error).not.toContain('did you mean');
  });

  it.each<[string[], unknown]>([
    [['--expression', '6*7'], { expression: '6*7' }],
    [['--expression=6*7', '--digits', '3', '--exact'], { expression: '6*7', digits: 3, exact: true }],
    [['--no-exact', '--tags', '1', '--tags', '2'], { exact: false, tags: [1, 2] }],
    [['--tags', '[1, 2]', '--extra', '{"a":1}'], { tags: [1, 2], extra: { a: 1 } }],
    [['expression=2+2', 'digits=5', 'extra:={"b":[1]}'], { expression: '2+2', digits: 5, extra: { b: [1] } }],
    [['--arguments', '{"expression":"1"}', 'digits=1'], { expression: '1', digits: 1 }],
    [['--arguments', '-'], { expression: 'from input' }],
    [['--digits', '-5'], { digits: -5 }],
    [['--digits', 'many'], { digits: 'many' }],
    [['--digits', '9007199254740993'], { digits: '9007199254740993' }],
    [['--expression', '5'], { expression: '5' }],
    [['--', 'expression=--help'], { expression: '--help' }],
  ])('%j', async (words, expected) => {
    const { code, out } = await run(['call', 'calculator', ...words], { input: '{"expression":"from input"}' });
    expect([code, out]).toEqual([0, '42\n']);
    expect(sentArguments()).toEqual(expected);
  });

  it.each([
    [['call', 'calculator', '--expression'], '--expression requires a value: --expression <string>'],
    [['call', 'calculator', '--digits', '--exact'], '--digits requires a value: --digits <integer>'],
    [['call', 'calculator', '--tags'], '--tags requires a value: --tags <integer>'],
    [['call', 'calculator', '--expression', '1', '--bogus'], 'The tool has no argument --bogus'],
    [['call', 'calculator', '--expression', '1', '--no-bogus'], 'The tool has no argument --bogus'],
    [['call', '--bogus', 'calculator'], 'the tool is missing before --bogus'],
    [['--bogus=1', 'call', 'calculator', 'expression=1'], 'Unknown option --bogus'],
    [['--bogus'], 'Unknown option --bogus'],
    [['tools', '--bogus'], 'Unknown option --bogus'],
  ])('%j names the option', async (argv, message) => {
    expect(await run(argv)).toMatchObject({ code: 2, error: expect.stringContaining(message) });
    expect(seen.filter(({ method }) => method === 'POST')).toEqual([]);
  });

  it('passes --url to a tool that has such an argument', async () => {
    const page = {
      ...CALCULATOR,
      name: 'page',
      parameters: { type: 'object', properties: { url: { type: 'string' } } },
    };
    routes.set('GET /api/v1/tools/page', () => ({ status: 200, body: page }));
    routes.set('POST /api/v1/tools/page/execute', () => ({ status: 200, body: RESULT }));
    await run(['call', 'page', '--url', 'https://a.example/']);
    expect(sentArguments()).toEqual({ url: 'https://a.example/' });
    seen.length = 0;
    await run(['-u', url, 'call', 'page', 'url=https://b.example/'], { env: { TOOLFLEET_URL: 'http://127.0.0.1:1' } });
    expect(sentArguments()).toEqual({ url: 'https://b.example/' });
    seen.length = 0;
    await run(['call', 'calculator', '--url', url, '-a', '{"expression":"1"}'], {
      env: { TOOLFLEET_URL: 'http://127.0.0.1:1' },
    });
    expect(sentArguments()).toEqual({ expression: '1' });
  });

  it('reads arguments from a file', async () => {
    await writeFile(join(folder, 'args.json'), '{"expression":"7"}');
    await run(['call', 'calculator', '-a', `@${join(folder, 'args.json')}`]);
    expect(sentArguments()).toEqual({ expression: '7' });
    expect(seen).toHaveLength(1); // JSON needs no schema
  });

  it.each([
    ['--arguments', '{"digits":9007199254740993}'],
    ['--extra', '{"digits":9007199254740993}'],
  ])('refuses a number in %s that is inexact', async (...words) => {
    const { code, error } = await run(['call', 'calculator', ...words]);
    expect(code).toBe(2);
    expect(error).toContain('9007199254740993 cannot be represented exactly');
  });

  it('sends options of the call next to the arguments', async () => {
    await run([
      'call',
      'calculator',
      '-a',
      '{}',
      '--session-id',
      's',
      '--timeout-ms',
      '500',
      '--dry-run',
      '--no-retry',
      '--idempotency-key',
      'k',
    ]);
    expect(seen.at(-1)?.body).toEqual({
      arguments: {},
      session_id: 's',
      timeout_ms: 500,
      dry_run: true,
      no_retry: true,
      idempotency_key: 'k',
    });
  });

  it('reports failures and refusals, with exit codes', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 200,
      body: { ...RESULT, success: false, output: null, text: '', error: 'Division by zero' },
    }));
    expect(await run(['call', 'calculator', '-a', '{}'])).toMatchObject({
      code: 1,
      out: '',
      error: 'failed: Division by zero\n  call_id: c1\n',
    });
    expect(await run(['call', 'nothing', '-a', '{}'])).toMatchObject({
      code: 1,
      error: 'fleetctl: No such tool (TOOL_NOT_FOUND)\n  Check the name.\n  call_id: c9\n',
    });
    expect(JSON.parse((await run(['call', 'nothing', '-a', '{}', '--json'])).out)).toMatchObject({
      code: 'TOOL_NOT_FOUND',
    });
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 401,
      body: { error: 'No key', code: 'UNAUTHENTICATED' },
    }));
    expect((await run(['call', 'calculator', '-a', '{}'])).code).toBe(4);
    expect(await run(['call', 'calculator', '-a', '{}', '--url', 'http://127.0.0.1:1'])).toMatchObject({
      code: 3,
      error: expect.stringContaining('No fleet answers'),
    });
  });

  it.each([
    [['call']],
    [['call', 'calculator', 'what']],
    [['call', 'calculator', '-a', '[1]']],
    [['call', 'calculator', '-a', '{']],
    [['call', 'calculator', '--timeout-ms', 'x']],
    [['call', 'calculator', '-a', '@/nowhere.json']],
    [['tools', 'extra']],
    [['describe', 'calculator', 'other']],
    [['nonsense']],
    [['tools', '--strange']],
    [['-x']],
  ])('%j is a usage error', async (argv) => {
    expect(await run(argv)).toMatchObject({ code: 2, error: expect.stringMatching(/^fleetctl: /) });
  });

  it('follows an asynchronous call with a progress line', async () => {
    let asked = 0;
    routes.set('POST /api/v1/tools/calculator/execute', (one) => ({
      status: one.body?.['mode'] === 'async' ? 202 : 500,
      body: { call_id: 'c7', status: 'accepted' },
    }));
    routes.set('GET /api/v1/calls/c7', () => {
      asked += 1;
      return {
        status: 200,
        body:
          asked < 4
            ? { call_id: 'c7', state: 'claimed', progress: { progress: asked, total: 4, message: 'working' } }
            : { call_id: 'c7', state: 'succeeded', result: RESULT },
      };
    });
    const { code, out, error } = await run(['call', 'calculator', '-a', '{}', '--async'], { interactive: true });
    expect([code, out]).toEqual([0, '42\n']);
    expect(error).toMatch(/\[█+░+\] \d\/4 working/);
    expect(await run(['call', 'calculator', '-a', '{}', '--async', '--no-wait'])).toMatchObject({
      code: 0,
      out: 'c7\n',
    });
    expect(await run(['jobs', 'c7', '--watch'])).toMatchObject({ code: 0, out: '42\n' });
    routes.set('GET /api/v1/calls/c8', () => ({ status: 200, body: { call_id: 'c8', state: 'expired' } }));
    expect(await run(['jobs', 'c8', '--watch'])).toMatchObject({ code: 1, error: expect.stringContaining('expired') });
    routes.set('DELETE /api/v1/calls/c8', () => ({ status: 200, body: { call_id: 'c8', state: 'cancelled' } }));
    expect(await run(['jobs', 'cancel', 'c8'])).toMatchObject({ code: 0, out: 'c8  cancelled\n' });
  });

  it('stops at the first Ctrl-C and prints how to follow a background call, which continues', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({ status: 202, body: { call_id: 'c6' } }));
    routes.set('GET /api/v1/calls/c6', () => {
      setTimeout(() => process.emit('SIGINT'), 20);
      return { status: 200, body: { call_id: 'c6', status: 'claimed' } };
    });
    expect(await run(['call', 'calculator', '-a', '{}', '--async'])).toMatchObject({
      code: 130,
      error: 'fleetctl: Interrupted; the call continues: fleetctl jobs c6 --watch\n',
    });
    routes.set('GET /api/v1/tools', () => {
      process.emit('SIGINT');
      return { status: 200, body: [] };
    });
    expect(await run(['tools'])).toMatchObject({ code: 130, error: 'fleetctl: Interrupted\n' });
  });

  it('shows progress from the event stream', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 202,
      body: { call_id: 'c5', status: 'accepted' },
    }));
    let asked = 0;
    routes.set('GET /api/v1/calls/c5', () => ({
      status: 200,
      body: ++asked > 4 ? { call_id: 'c5', status: 'succeeded', result: RESULT } : { call_id: 'c5', status: 'claimed' },
    }));
    routes.set('GET /api/v1/calls/c5/events', () => ({
      status: 200,
      body: 'id: 1-0\nevent: progress\ndata: {"message":"half","progress":1,"total":2}\n\n',
    }));
    const { out, error } = await run(['call', 'calculator', '-a', '{}', '--async'], { interactive: true });
    expect(out).toBe('42\n');
    expect(error).toContain('1/2 half');
  });

  it('shows no control characters of a tool', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 200,
      body: { ...RESULT, text: 'a\u001b]0;title\u0007b' },
    }));
    expect((await run(['call', 'calculator', '-a', '{}'])).out).toBe('a]0;titleb\n');
  });
});
