/** No text from elsewhere steers the terminal it is shown on: tools, schemas, documents and errors go through one writer. */
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CALCULATOR, folder, RESULT, routes, run, serveGateway } from './fleetctl.fixture.js';
import { ProgressLine } from './follow-call.js';
import { jsonText, paint, plain, terminalOn } from './terminal.js';

serveGateway();

/** Clears the screen, sets the title, writes to the clipboard, turns direction, hides, breaks the line. */
const HOSTILE =
  'a\u001b[2J\u001b]0;title\u0007\u001b]52;c;aGk=\u001b\\\u009b31m\u0085\r\b\u007f\u202egnp.exe\u2066\u2069\u200f\u061c\u200b\ufeff\u2028\u{e0041}\ufdd0\ud800z';
const STEERING =
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufdd0-\ufdef]|\p{Cs}|[\u{e0000}-\u{e007f}]/u;
const hostile = { name: HOSTILE, nested: [HOSTILE] };

describe('what commands show', () => {
  const evil = {
    ...CALCULATOR,
    name: `evil${HOSTILE}`,
    description: HOSTILE,
    version: HOSTILE,
    category: HOSTILE,
    parameters: {
      properties: { [`x${HOSTILE}`]: { type: HOSTILE, description: HOSTILE, enum: [HOSTILE], default: HOSTILE } },
      required: [`x${HOSTILE}`],
    },
  };
  const body = { ...RESULT, output: hostile, text: HOSTILE, call_id: `c${HOSTILE}` };
  const failed = { ...body, success: false, error: HOSTILE };
  const refused = { error: HOSTILE, code: 'X', hint: HOSTILE, call_id: HOSTILE, details: hostile };
  const answers: [string, string[], Record<string, unknown>, number?][] = [
    ['tools', ['tools'], { 'GET /api/v1/tools': [evil] }],
    ['describe', ['describe', 'evil'], { 'GET /api/v1/tools/evil': evil }],
    ['a result', ['call', 'calculator', '-a', '{}'], { 'POST /api/v1/tools/calculator/execute': body }],
    ['a failure', ['call', 'calculator', '-a', '{}'], { 'POST /api/v1/tools/calculator/execute': failed }],
    ['a refusal', ['call', 'calculator', '-a', '{}'], { 'POST /api/v1/tools/calculator/execute': refused }, 403],
    ['a missing tool', ['describe', 'evil'], { 'GET /api/v1/tools/evil': refused }, 404],
    ['health', ['health'], { 'GET /health': hostile, 'GET /readiness': { [HOSTILE]: HOSTILE, parts: hostile } }],
    [
      'keys',
      ['keys', 'list'],
      {
        'GET /api/v1/keys': [
          {
            ...{ id: HOSTILE, client: HOSTILE, tenant_id: HOSTILE, tools: [HOSTILE], roles: [HOSTILE] },
            ...{ parent_id: HOSTILE, person: { tenant_id: HOSTILE, user_id: HOSTILE, kind: 'creator' } },
          },
        ],
      },
    ],
    [
      'calls',
      ['calls'],
      {
        'GET /api/v1/calls': {
          enabled: true,
          next: HOSTILE,
          calls: [{ tool: HOSTILE, code: HOSTILE, call_id: HOSTILE }],
        },
      },
    ],
    [
      'a call in the background',
      ['calls', 'show', 'c1'],
      { 'GET /api/v1/calls/c1': { ...failed, status: HOSTILE, tool: HOSTILE } },
    ],
  ];

  it.each(answers)(
    '%s holds nothing that steers a terminal, with colours or as JSON',
    async (_what, argv, bodies, status = 200) => {
      for (const [route, answer] of Object.entries(bodies)) routes.set(route, () => ({ status, body: answer }));
      for (const more of [[], ['--json']]) {
        const { out, error } = await run([...argv, ...more], { colours: true, interactive: true });
        expect(`${out}${error}`).not.toBe('');
        // oxlint-disable-next-line no-control-regex -- our own styles and the removal of a progress line
        expect(`${out}${error}`.replaceAll(/\u001b\[\d+m|\r\u001b\[K/g, '')).not.toMatch(STEERING);
      }
    },
  );

  it('a document and its faults do not', async () => {
    const operation = { operationId: 'op', summary: HOSTILE, description: HOSTILE, tags: [HOSTILE] };
    const path = join(folder, 'hostile.json');
    const paths = { [`/a${HOSTILE}`]: { get: operation, post: { requestBody: { content: { [HOSTILE]: {} } } } } };
    await writeFile(path, JSON.stringify({ openapi: '3.1.0', info: { title: HOSTILE, version: '1' }, paths }));
    for (const argv of [
      ['inspect', path],
      ['inspect', path, '--json'],
      ['request', path, HOSTILE],
    ]) {
      const { out, error } = await run(['openapi', ...argv]);
      expect(`${out}${error}`).not.toBe('');
      expect(`${out}${error}`).not.toMatch(STEERING);
    }
  });

  it('progress does not', async () => {
    let drawn = '';
    const terminal = terminalOn({
      out: () => undefined,
      error: (text) => void (drawn += text),
      interactive: true,
      readInput: () => Promise.resolve(''),
    });
    const line = new ProgressLine(terminal, `calling ${HOSTILE}`);
    line.update({ message: `${HOSTILE}\nsecond line`, progress: 1, total: 2 });
    await expect.poll(() => drawn).toContain('1/2');
    line.stop();
    // oxlint-disable-next-line no-control-regex -- how a line is drawn again
    expect(drawn.replaceAll(/\r\u001b\[K/g, '')).not.toMatch(STEERING);
    expect(drawn).not.toContain('\n');
  });
});

describe('the writer', () => {
  const written = (text: string, colours = true) => {
    let out = '';
    const terminal = terminalOn({
      out: (one) => void (out += one),
      error: () => undefined,
      colours,
      readInput: () => Promise.resolve(''),
    });
    terminal.out(paint(terminal, 'red', text));
    return out;
  };

  it('adds its own styles to text without any', () => {
    expect(written('a\u001b[32mb')).toBe('\u001b[31ma[32mb\u001b[0m');
    expect(written('a\u001b[32mb', false)).toBe('a[32mb');
  });

  it('keeps text of every language, line ends and tabs', () => {
    const text = 'Grüße\t日本語 עברית العربية हिन्दी 👩‍👧 می‌خواهم\n';
    expect(plain(text)).toBe(text);
  });

  it('loses nothing in JSON', () => {
    expect(jsonText(hostile)).not.toMatch(STEERING);
    expect(JSON.parse(jsonText(hostile, 2))).toEqual(hostile);
    expect(jsonText(undefined)).toBe('null');
  });

  it('is the only one: nothing else in the program writes to a stream of the process', () => {
    const sources = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' }).filter(
      (name) => /\.ts$/.test(name) && !/\.(spec|fixture)\.ts$/.test(name),
    );
    const writing = sources.filter((name) =>
      /process\.std(out|err)|console\.|\/dev\/tty/.test(readFileSync(join(import.meta.dirname, name), 'utf8')),
    );
    expect(writing).toEqual(['terminal.ts']);
  });

  it('never gets JSON that it would have to change', () => {
    const commands = readdirSync(join(import.meta.dirname, 'commands')).filter((name) => !name.endsWith('.spec.ts'));
    const raw = commands.filter((name) =>
      /(out|error|write)\([^;]*JSON\.stringify/s.test(
        readFileSync(join(import.meta.dirname, 'commands', name), 'utf8'),
      ),
    );
    expect(raw).toEqual([]);
  });
});
