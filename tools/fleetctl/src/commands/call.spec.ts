import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  CALCULATOR,
  RESULT,
  folder,
  routes,
  run,
  seen,
  sentArguments,
  url,
  serveGateway,
} from '../fleetctl.fixture.js';

serveGateway();

describe('call', () => {
  it('suggests a similar name for typos', async () => {
    const strict = { ...CALCULATOR, parameters: { ...CALCULATOR.parameters, additionalProperties: false } };
    routes.set('GET /api/v1/tools/calculator', () => ({ status: 200, body: strict }));
    expect(await run(['call', 'calculator', '--expresion', '1'])).toMatchObject({
      code: 2,
      error: expect.stringContaining('has no argument --expresion; did you mean --expression?'),
    });
    expect((await run(['cal', 'calculator'])).error).toContain('did you mean call?');
    expect((await run(['usage', '--form', '2026-01-01'])).error).toContain('did you mean --from?');
    expect((await run(['xyzzy'])).error).not.toContain('did you mean');
  });

  it('says who may call a dangerous tool', async () => {
    const body = { error: 'Tool not available via direct execution' };
    routes.set('POST /api/v1/tools/calculator/execute', () => ({ status: 403, body }));
    const { code, error } = await run(['call', 'calculator', '--expression', '1']);
    expect([code, error]).toEqual([4, expect.stringMatching(/via direct execution\n {2}.*only internal callers/)]);
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
    [['--arguments', '{"digits":9007199254740993}'], { digits: '9007199254740993' }],
    [['--expression', '5'], { expression: '5' }],
    [['--', 'expression=--help'], { expression: '--help' }],
  ])('%j', async (words, expected) => {
    const { code, out } = await run(['call', 'calculator', ...words], { input: '{"expression":"from input"}' });
    expect([code, out]).toEqual([0, '42\n']);
    expect(sentArguments()).toEqual(expected);
  });

  it('takes every option that describe lists: members, items, files, values that name switches', async () => {
    const author = { properties: { name: { type: 'string' }, born: { type: 'integer' } } };
    const body = { type: 'object', properties: { author: { $ref: '#/$defs/author' }, tags: { type: 'array' } } };
    const content = { type: 'string', contentEncoding: 'base64' };
    const properties = { body, tasks: { type: 'array', items: author }, content, replace: { type: 'string' } };
    const parameters = { type: 'object', properties, $defs: { author } };
    routes.set('GET /api/v1/tools/add', () => ({ status: 200, body: { ...CALCULATOR, parameters } }));
    routes.set('POST /api/v1/tools/add/execute', () => ({ status: 200, body: RESULT }));
    await writeFile(join(folder, 'tasks.json'), '[{"name": "b"}]');
    const sentBy = async (...words: string[]) => {
      seen.length = 0;
      expect(await run(['call', 'add', ...words])).toMatchObject({ code: 0 });
      return sentArguments();
    };
    const dotted = ['--body.author.name', 'Emma', '--body.author.born', '1775', '--body.tags', 'a', '--body.tags', 'b'];
    const emma = { author: { name: 'Emma', born: 1775 }, tags: ['a', 'b'] };
    expect(await sentBy(...dotted)).toEqual({ body: emma });
    const given = ['--arguments', '{"body": {"isbn": 1}}', 'body.author.name=Emma'];
    expect(await sentBy(...given)).toEqual({ body: { isbn: 1, author: { name: 'Emma' } } });
    const items = ['--tasks.0.name', 'a', '--tasks.1.name', 'b'];
    expect(await sentBy(...items)).toEqual({ tasks: [{ name: 'a' }, { name: 'b' }] });
    const files = ['--tasks', `@${join(folder, 'tasks.json')}`, '--content', `@${join(folder, 'tasks.json')}`];
    expect(await sentBy(...files)).toEqual({ tasks: [{ name: 'b' }], content: expect.stringMatching(/^W3si/) });
    expect(await sentBy('--replace', 'old')).toEqual({ replace: 'old' });
    for (const [words, message] of [
      [['--body.auther.name', 'E'], 'no argument --body.auther.name'],
      [['--body.isbn', '1'], 'no argument --body.isbn'],
      [['--tasks.1.name', 'b'], 'numbered from 0'],
    ] as const)
      expect(await run(['call', 'add', ...words])).toMatchObject({ code: 2, error: expect.stringContaining(message) });
  });

  it('prints a whole result to a pipe, and says on a terminal that it is cut', async () => {
    const rows = Array.from({ length: 56 }, (_, number) => ({ number }));
    const text = JSON.stringify([...rows.slice(0, 20), '… 36 more of 56']);
    routes.set('POST /api/v1/tools/calculator/execute', () => ({
      status: 200,
      body: { ...RESULT, output: rows, text },
    }));
    const piped = await run(['call', 'calculator', '-a', '{}']);
    expect([JSON.parse(piped.out), piped.error]).toEqual([rows, '']);
    const shown = await run(['call', 'calculator', '-a', '{}'], { width: 80 });
    expect([shown.out, shown.error]).toEqual([`${text}\n`, expect.stringContaining('is cut')]);
    const long = 'x'.repeat(300_000);
    const cut = { ...RESULT, output: long, text: `${long.slice(0, 5_999)}…` };
    routes.set('POST /api/v1/tools/calculator/execute', () => ({ status: 200, body: cut }));
    expect((await run(['call', 'calculator', '-a', '{}'])).out).toBe(`${long}\n`);
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
    ['--arguments', '{"digits":1e999}'],
    ['--extra', '{"digits":1e999}'],
  ])('refuses a number in %s that is inexact', async (...words) => {
    const { code, error } = await run(['call', 'calculator', ...words]);
    expect(code).toBe(2);
    expect(error).toContain('1e999 cannot be represented exactly');
  });

  it.each([
    ['call', 'calculator', '--toolset', 'support', 'expression=1'],
    ['call', '--toolset=support', 'calculator', '--expression', '1'],
    ['--toolset', 'support', 'call', 'calculator', '--expression', '1'],
  ])('reads the schema and calls in a toolset: %j', async (...argv) => {
    expect((await run(argv)).code).toBe(0);
    expect(sentArguments()).toEqual({ expression: '1' });
    expect(seen.map(({ path }) => path)).toEqual([
      '/api/v1/tools/calculator?toolset=support',
      '/api/v1/tools/calculator/execute?toolset=support',
    ]);
  });

  it('needs no schema for JSON in a toolset, and a name', async () => {
    await run(['call', 'calculator', '--toolset', 'support@2', '-a', '{"expression":"1"}']);
    expect(seen.map(({ path }) => path)).toEqual(['/api/v1/tools/calculator/execute?toolset=support%402']);
    expect(await run(['call', 'calculator', '--toolset'])).toMatchObject({
      code: 2,
      error: expect.stringContaining('--toolset requires exactly one value'),
    });
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

  describe('files of a result', () => {
    const PNG = 'iVBORw0KGgo=';
    const picture = { type: 'image', mimeType: 'image/png', data: PNG };
    const answer = (parts: object) =>
      routes.set('POST /api/v1/tools/calculator/execute', () => ({ status: 200, body: { ...RESULT, ...parts } }));
    const save = async (...argv: string[]) => {
      const cwd = await mkdtemp(join(folder, 'out-'));
      const outputs = argv.map((word) => word.replace('@', `${cwd}/`));
      const { code, out, error } = await run(['call', 'calculator', '-a', '{}', ...outputs]);
      const files = await Promise.all(
        (await readdir(cwd))
          .toSorted()
          .map(async (name) => [name, (await readFile(join(cwd, name))).toString('base64')]),
      );
      return { code, out, error: error.replaceAll(cwd, ''), files };
    };
    const JSON_FILE = Buffer.from('{\n  "result": 42\n}\n').toString('base64');

    it('are named on standard error', async () => {
      answer({ content: [picture, { type: 'resource_link', name: 'doc', uri: 'x://doc' }] });
      expect(await run(['call', 'calculator', '-a', '{}'])).toMatchObject({
        code: 0,
        out: '42\ndoc: x://doc\n',
        error: 'calculator-1.png: image/png, 8 bytes; --output FILE or DIR/ writes it\n',
      });
      answer({ metadata: { content_omitted: { blocks: 1, bytes: 9_000_000 } } });
      expect((await run(['call', 'calculator', '-a', '{}'])).error).toContain('too large and left out: {"blocks":1');
    });

    it('are written to the file, numbered if there are several', async () => {
      answer({ content: [picture] });
      expect(await save('--output', '@a.png')).toEqual({
        code: 0,
        out: '42\n',
        error: 'Wrote /a.png\n',
        files: [['a.png', PNG]],
      });
      answer({ content: [picture, { ...picture, mimeType: 'image/jpeg' }] });
      expect((await save('-o', '@a.png')).files).toEqual([
        ['a-1.png', PNG],
        ['a-2.jpg', PNG],
      ]);
      answer({});
      expect(await save('-o', '@r.json')).toMatchObject({ out: '', files: [['r.json', JSON_FILE]] });
      expect(await save('-o', '@r.json', '--json')).toMatchObject({
        out: expect.stringContaining('"success": true'),
        files: [['r.json', JSON_FILE]],
      });
    });

    it('are written to the folder with the output, and replace nothing', async () => {
      answer({ content: [picture] });
      const { files } = await save('-o', '@');
      expect(files).toEqual([
        ['calculator.json', JSON_FILE],
        ['calculator.png', PNG],
      ]);
      for (const _time of [1, 2]) await run(['call', 'calculator', '-a', '{}', '-o', join(folder, 'same/')]);
      expect((await readdir(join(folder, 'same'))).toSorted()).toEqual([
        'calculator-2.json',
        'calculator-2.png',
        'calculator.json',
        'calculator.png',
      ]);
    });

    it('go to standard output, which must not be a terminal', async () => {
      answer({ content: [picture] });
      expect(await save('-o', '-')).toMatchObject({ code: 0, out: PNG, error: '' });
      answer({ content: [picture, picture] });
      expect(await save('-o', '-')).toMatchObject({
        code: 1,
        out: '42\n',
        error: expect.stringContaining('--output DIR/'),
      });
    });

    it('of a failed call are also written', async () => {
      answer({ success: false, error: 'no ink', output: null, content: [picture] });
      expect(await save('-o', '@')).toMatchObject({
        code: 1,
        error: expect.stringContaining('failed: no ink'),
        files: [['calculator.png', PNG]],
      });
    });

    it('of a background call need its end', async () => {
      let result: object | undefined;
      routes.set('GET /api/v1/calls/c7', () => ({
        status: 200,
        body: { call_id: 'c7', tool: 'draw', status: result ? 'succeeded' : 'claimed', result },
      }));
      expect(await run(['calls', 'show', 'c7', '-o', '-'])).toMatchObject({
        code: 1,
        out: '',
        error: expect.stringContaining('no result to write (claimed); --watch'),
      });
      result = { ...RESULT, content: [picture] };
      expect(await run(['calls', 'show', 'c7', '-o', '-'])).toMatchObject({ code: 0, out: PNG });
      expect(await run(['calls', 'show', 'c7', '--watch', '-o', '-'])).toMatchObject({ code: 0, out: PNG });
    });

    it.each([
      [['-o', '/nowhere/a.png'], '--output /nowhere/a.png cannot be written'],
      [['-o'], '--output requires exactly one value'],
      [['--cache', 'never'], '--cache must be no-store or reload'],
    ])('%j is refused before the call', async (words, message) => {
      expect(await run(['call', 'calculator', '-a', '{}', ...words])).toMatchObject({
        code: 2,
        error: expect.stringContaining(message),
      });
      expect(seen.filter(({ method }) => method === 'POST')).toEqual([]);
    });

    it('leave an argument of the tool with the name of an option to the tool', async () => {
      const properties = { output: { type: 'string' }, cache: { type: 'boolean' } };
      routes.set('GET /api/v1/tools/calculator', () => ({
        status: 200,
        body: { ...CALCULATOR, parameters: { type: 'object', properties } },
      }));
      const path = join(folder, 'own.json');
      await run(['call', 'calculator', '--output', 'x', '--cache']);
      expect(seen.at(-1)?.body).toEqual({ arguments: { output: 'x', cache: true } });
      await run(['--output', path, '--cache', 'reload', 'call', 'calculator']);
      expect(seen.at(-1)?.body).toEqual({ arguments: {}, cache: 'reload' });
      expect((await readFile(path)).toString('base64')).toBe(JSON_FILE);
    });
  });

  it('shows the streams and the traceback of a program, and the text of any other tool that failed', async () => {
    const failed = (parts: object) =>
      routes.set('POST /api/v1/tools/calculator/execute', () => ({
        status: 200,
        body: { ...RESULT, success: false, error: 'ValueError: x', text: '', ...parts },
      }));
    const details = { traceback: 'Traceback…\nValueError: x\n' };
    failed({ output: { stdout: 'one\n', stderr: 'two\n' }, metadata: { details, suggestion: 'Correct the code.' } });
    expect(await run(['call', 'calculator', '-a', '{}'])).toEqual({
      code: 1,
      out: 'one\n',
      error: 'two\nTraceback…\nValueError: x\nfailed: ValueError: x\n  Correct the code.\n  call_id: c1\n',
    });
    failed({ output: null, text: JSON.stringify({ error: 'execution_error', message: 'ValueError: x\nat line 3' }) });
    expect((await run(['call', 'calculator', '-a', '{}'])).error).toBe(
      'failed: ValueError: x\nat line 3\n  call_id: c1\n',
    );
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
    expect(await run(['call', 'calculator', '-a', '{}'])).toMatchObject({
      code: 4,
      error: expect.stringContaining('--key <key>'),
    });
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
          asked < 2
            ? { call_id: 'c7', status: 'awaiting_approval' }
            : asked < 4
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
    expect(await run(['calls', 'show', 'c7', '--watch'])).toMatchObject({ code: 0, out: '42\n' });
    routes.set('GET /api/v1/calls/c8', () => ({ status: 200, body: { call_id: 'c8', state: 'expired' } }));
    expect(await run(['calls', 'show', 'c8', '--watch'])).toMatchObject({
      code: 1,
      error: expect.stringContaining('expired'),
    });
    routes.set('DELETE /api/v1/calls/c8', () => ({ status: 200, body: { call_id: 'c8', state: 'cancelled' } }));
    expect(await run(['calls', 'cancel', 'c8'])).toMatchObject({ code: 0, out: 'c8  cancelled\n' });
  });

  it('stops at the first Ctrl-C and prints how to follow a background call, which continues', async () => {
    routes.set('POST /api/v1/tools/calculator/execute', () => ({ status: 202, body: { call_id: 'c6' } }));
    routes.set('GET /api/v1/calls/c6', () => {
      setTimeout(() => process.emit('SIGINT'), 20);
      return { status: 200, body: { call_id: 'c6', status: 'claimed' } };
    });
    expect(await run(['call', 'calculator', '-a', '{}', '--async'])).toMatchObject({
      code: 130,
      error: 'fleetctl: Interrupted; the call continues: fleetctl calls show c6 --watch\n',
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
