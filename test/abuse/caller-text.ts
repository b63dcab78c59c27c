/**
 * Every function that handles text or values of callers, remote servers or definitions, with the inputs that cost it most.
 * `linear-time.spec.ts` doubles each input. A new function gets a row.
 */
import { buildRequest, convertDocument, encodeUnreserved, parseSpec } from '@toolfleet/openapi';
import { ToolError, type Json, type JsonObject } from '@toolfleet/contracts';
import { parseExact } from '@toolfleet/contracts/json-text';
import { TextSearch } from '@toolfleet/contracts/text';
import { ArgumentReader, boundedMatcher, canonicalJson, compileSchema } from '@toolfleet/bounded-schema';
import { redact, registerSecret } from '@toolfleet/telemetry';
import { ToolRanker } from '../../libs/catalog/src/search/rank-tools.js';
import { toolAllowed } from '@toolfleet/engine/access';
import { redactCall } from '../../libs/engine/src/redact-call.js';
import { readCredential } from '@toolfleet/access';
import { summarise } from '../../apps/openapi-executor/src/read-response.js';
import { suspicions } from '../../apps/registry/src/quarantine.js';
import { registeredName } from '../../apps/registry/src/sources/registered-name.js';
import { evaluate } from '../../libs/builtin-tools/src/calculator/evaluate.js';
import { globMatcher, searchLines } from '../../libs/builtin-tools/src/files/file-matching.js';
import { parseJson, sortKeys } from '../../libs/builtin-tools/src/json/json-document.js';
import { CASES, EXTRACTABLE, operateOnText } from '../../libs/builtin-tools/src/text/text-operations.js';
import { markdown } from '../../libs/builtin-tools/src/web/extract-page.js';
import { decodePage } from '../../libs/builtin-tools/src/web/page-reader.js';
import { STRING_BUILTINS } from '../../libs/kits/rego/src/builtins/strings.js';
import { toErrorReply } from '../../libs/transport/src/codec.js';

/** One function. `prepare` makes its input of about `length` characters and returns the work that is measured. */
export interface CallerTextRow {
  name: string;
  /** Inputs known to be the worst, by what is repeated in them. */
  worst: Readonly<Record<string, (length: number) => () => unknown>>;
  /** For functions of one text: the long hunt tries it on every unit of `UNITS`. */
  run?: (text: string) => unknown;
  /** Longest input that the function accepts. */
  most?: number;
}

/** What the long hunt repeats, alone and with an end that keeps a pattern from matching. */
export const UNITS = [
  ...[
    'a',
    'A',
    '0',
    ' ',
    '\n',
    '\r\n',
    '\t',
    '.',
    ',',
    '-',
    '_',
    '/',
    '\\',
    '"',
    "'",
    '`',
    '#',
    '@',
    ':',
    ';',
    '%',
    '&',
  ],
  ...['*', '+', '=', '!', '?', '(', '[', '{', '<', '>', '|', '~', '$', '^', 'é', '😀', '\u0301', '\u200b', '！', 'ß'],
  ...[
    'a ',
    '. ',
    'a.',
    'a@',
    'a-',
    '1.',
    '1,',
    '-1',
    '()',
    '[]',
    '{}',
    '{{',
    '<a>',
    '<!--',
    '![](',
    '](',
    '**',
    '%2',
    '\\"',
  ],
  ...['http://', 'a@a.', '\n \n', ' \n', '"a":', "it's ", 'aB', '1/1/', '+1 ', '#a ', '&amp;', '</', '\\u0041'],
];
export const ENDS = ['', '!', 'x', '\n'];

export const STARTS = ['', 'x'];

/** Text of about `length` characters: one unit over and over, between a start and an end. */
export const repeated = (unit: string, length: number, end = '', start = ''): string =>
  start + unit.repeat(Math.max(1, Math.floor(length / unit.length))) + end;

function onText(
  name: string,
  run: (text: string) => unknown,
  worst: readonly [unit: string, end?: string, start?: string][],
  most?: number,
) {
  const cases = worst.map(([unit, end = '', start = '']) => [
    JSON.stringify(`${start}${unit}…${end}`),
    (length: number) => {
      const text = repeated(unit, length, end, start);
      return () => run(text);
    },
  ]);
  const row: CallerTextRow = { name, run, worst: Object.fromEntries(cases) as CallerTextRow['worst'] };
  if (most !== undefined) row.most = most;
  return row;
}

registerSecret('a-secret-of-the-configuration');

const tool = (schema: JsonObject): ArgumentReader =>
  new ArgumentReader({ type: 'object', ...schema }, { toolName: 't' });
const property = (schema: JsonObject): ArgumentReader => tool({ properties: { x: schema } });
const types = property({ anyOf: [{ type: 'integer' }, { type: 'number' }, { type: 'boolean' }, { type: 'array' }] });
const strict = tool({ properties: {}, additionalProperties: false });
const unique = property({ type: 'array', uniqueItems: true });
const nested = tool({
  properties: { x: { $ref: '#/$defs/n' } },
  $defs: { n: { anyOf: [{ type: 'integer' }, { type: 'array', items: { $ref: '#/$defs/n' } }] } },
});
const ranker = new ToolRanker(
  Array.from({ length: 300 }, (_, index) => ({
    name: `tool_${index}_aaaaaaa${index}`,
    description: `Does work number ${index} on aaaaaab${index} texts`,
    category: 'data',
    input_schema: { type: 'object', properties: {} },
  })) as never,
);
const glob = globMatcher('**/*a*a*b*.ts');
const rego = (name: string, ...args: unknown[]): unknown =>
  STRING_BUILTINS[name]?.run(args as never, { nowMs: 0, spend: () => undefined });
const entry = { name: 'crm', prefix: 'crm' };
const definition = (description: string) =>
  ({
    description,
    input_schema: {},
    name: 't',
    source: { kind: 'mcp', name: 's' },
    binding: { kind: 'mcp', remoteName: 'r' },
  }) as never;

/** The formats of JSON Schema that ajv knows, each with the units its pattern repeats. */
const FORMATS: readonly [format: string, ...units: string[]][] = [
  ['date', '0', '2026-01-01'],
  ['time', '0', ':', '.0'],
  ['date-time', '0', '2026-01-01T', '.0'],
  ['iso-time', '0', '.0'],
  ['iso-date-time', '0', ' '],
  ['duration', 'P', '1Y', 'T1H'],
  ['uri', 'a', 'a:', '/', ':', '@', '%20', 'a.', '1.', '[', '::'],
  ['uri-reference', 'a', '/', ':', '@', '%20', 'a.', '?', '#'],
  ['uri-template', '{', '{a}', '{a,', 'a', '%20'],
  ['url', 'a', 'a:@', '/', '.', '-'],
  ['email', 'a', 'a.', 'a@', '-', 'a-'],
  ['hostname', 'a', 'a.', 'a-', '-'],
  ['ipv4', '1.', '1'],
  ['ipv6', ':', '1:', '::', '1.', 'f'],
  ['regex', 'a', '(', '[', '(a*)*', '\\'],
  ['uuid', 'a', '-', 'a-'],
  ['json-pointer', '/', '~0', 'a'],
  ['json-pointer-uri-fragment', '/', '~0', '%20'],
  ['relative-json-pointer', '0', '/', '1/'],
  ['byte', 'a', 'AAAA', '='],
];

const SCHEMA_ROWS: CallerTextRow[] = [
  ...FORMATS.map(([format, ...units]) => {
    const reader = property({ type: 'string', format });
    return onText(`format ${format}`, (x) => reader.read({ x }), [
      ...units.map((unit): [string, string] => [unit, '!']),
    ]);
  }),
  onText('coerce a text', (x) => types.read({ x }), [
    ['1'],
    [' ', 'x'],
    ['[', ''],
    ['1e', ''],
    ['0', '.'],
    ['[1,', ''],
  ]),
  onText('refuse an unknown name', (name) => strict.read({ [name]: 1 }), [['a'], ['/'], ['~']]),
  onText('explain a wrong type', (x) => property({ type: 'object' }).read({ x }), [['a'], ['/']]),
  onText('canonical JSON of a text', (text) => canonicalJson({ [text]: text }), [['a'], ['"'], ['\u0001'], ['\ud800']]),
  {
    name: 'arguments of many names',
    worst: {
      'unknown names': (length) => {
        const raw = Object.fromEntries(Array.from({ length: length / 10 }, (_, index) => [`name${index}`, index]));
        return () => strict.read(raw);
      },
      'items to compare': (length) => {
        const raw = { x: Array.from({ length: length / 10 }, (_, index) => ({ index, same: 'same' })) };
        return () => unique.read(raw);
      },
      'items of a union': (length) => {
        const raw = { x: Array.from({ length: length / 10 }, () => ['1', 'no']) };
        return () => nested.read(raw);
      },
    },
  },
  ...[
    '^(a+)+$',
    'a*a*a*b',
    '^(?!z)a*a*a*b',
    '(x+x+)+y',
    '(?:a|b)*a(?:a|b){200}[yz]',
    '(?<=a*)b',
    '\\s+$',
    '^[\\w.+-]+@[\\w-]+\\.[\\w.]+$',
  ].map((pattern) => {
    const matcher = boundedMatcher(pattern, 'u');
    return onText(`pattern ${pattern}`, (text) => matcher.test(text), [
      ['a', '!'],
      ['ab', '!'],
      ['x', '!'],
      [' ', 'x'],
    ]);
  }),
  {
    name: 'compile a schema',
    most: 200_000,
    worst: {
      properties: (length) => {
        const names = Array.from({ length: length / 40 }, (_, index) => [`p${index}`, { type: 'string' }]);
        return () => compileOnce({ type: 'object', properties: Object.fromEntries(names) as JsonObject });
      },
      'references to one part': (length) => {
        const names = Array.from({ length: length / 40 }, (_, index) => [`p${index}`, { $ref: '#/$defs/part' }]);
        const fields = Array.from({ length: length / 40 }, (_, index) => [`f${index}`, { type: 'integer' }]);
        const part = { type: 'object', properties: Object.fromEntries(fields) as JsonObject };
        return () =>
          compileOnce({ type: 'object', properties: Object.fromEntries(names) as JsonObject, $defs: { part } });
      },
    },
  },
];

let compiled = 0;
/** Compiled schemas are remembered by content: each run needs another one. */
function compileOnce(schema: JsonObject): unknown {
  compiled += 1;
  try {
    return compileSchema({ ...schema, title: `schema ${compiled}` }).check({});
  } catch (error) {
    if (error instanceof ToolError) return error; // refusals must also be quick
    throw error;
  }
}

/** JSON texts with exact numbers only, so that they are read to the end. */
const EXACT_NUMBERS: [unit: string, end: string, start: string][] = [
  ['\\\\', '",1234567890123456]', '["'],
  ['1234567890123456,', '1]', '['],
  ['"\\"1234567890123456",', '1]', '['],
  ['0', ']', '[1234567890123456.'],
];

const JSON_ROWS: CallerTextRow[] = [
  onText('parse exactly', (text) => thrown(() => parseExact(text)), [
    ...EXACT_NUMBERS,
    ['0', '1]', '[1'],
    ['9007199254740993,', '1]', '['],
    ['9', ']', '['],
  ]),
];

const TEXT_TOOL_ROWS: CallerTextRow[] = [
  ...(['count', 'summary', 'trim'] as const).map((operation) =>
    onText(`text ${operation}`, (text) => operateOnText({ operation, text }), [
      ['.'],
      ['.', 'x'],
      [' ', 'x'],
      ['\n'],
      ['\n ', 'x'],
      ['a'],
      ["a'"],
      ['！'],
    ]),
  ),
  ...CASES.map((to) =>
    onText(`text case ${to}`, (text) => operateOnText({ operation: 'case', text, to }), [
      ['. '],
      [' ', '!'],
      ['aB'],
      ['AB'],
      ['.'],
    ]),
  ),
  ...EXTRACTABLE.map((what) =>
    onText(
      `text extract ${what}`,
      (text) => operateOnText({ operation: 'extract', text, what, unique: true, limit: 1_000 }),
      [['a'], ['a.'], ['a@'], ['1'], ['1.'], ['1 '], ['http://'], ['#'], ['.,']],
    ),
  ),
  {
    name: 'look for a long text',
    worst: {
      'an odd first character': (length) => {
        const [text, wanted] = ['a'.repeat(length), `b${'a'.repeat(length / 2)}`];
        return () => new TextSearch(wanted).split(text);
      },
      'an odd last character': (length) => {
        const [text, wanted] = ['a'.repeat(length), `${'a'.repeat(length / 2)}b`];
        return () => new TextSearch(wanted).split(text);
      },
    },
  },
  onText('text lines', (text) => operateOnText({ operation: 'lines', text, unique: true, sort: true, limit: 10 }), [
    ['\n'],
    ['\r'],
    ['a\n'],
  ]),
  onText(
    'text replace',
    // The longest inputs of the full run have results that are refused by size.
    (text) => thrown(() => operateOnText({ operation: 'replace', text, find: 'aab', replacement: 'b', limit: 10 })),
    [['a'], ['ab']],
  ),
  onText(
    'search lines',
    (text) => searchLines({ files: [{ path: 'p', text }], query: 'ab!', useRegex: false, ignoreCase: true, limit: 9 }),
    [['a'], ['\n']],
  ),
  onText(
    'search lines by pattern',
    (text) => searchLines({ files: [{ path: 'p', text }], query: 'a*a*b', useRegex: true, ignoreCase: true, limit: 9 }),
    [['a'], ['a\n']],
  ),
  onText('parse JSON', (text) => thrown(() => sortKeys(parseJson(text, 'x'))), [
    ['[1],'],
    ['"'],
    ['\\'],
    ['{"a":1},'],
    [' ', 'x'],
    ['\n', 'x'],
  ]),
  onText(
    'calculate',
    (text) => thrown(() => evaluate(text)),
    [['1+'], ['('], ['-'], ['1', '!'], ['9!', ''], ['sqrt('], ['1e9*']],
    4_096,
  ),
  onText('match a path', (text) => glob(text.split('/')), [['a'], ['a/'], ['/']], 4_096),
  onText(
    'decode a page',
    (text) => decodePage(Buffer.from(text), `text/html; charset=${text.slice(0, 1_000)}`, 'html'),
    [['<meta '], ['<!--'], [' ']],
  ),
  onText('Markdown of a page', (text) => markdown(`<p>${text}</p>`), [[' ', 'x'], ['&nbsp;'], ['*'], ['_']], 100_000),
];

function thrown(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

const MESSAGE_ROWS: CallerTextRow[] = [
  onText(
    'mask arguments in a message',
    (text) =>
      redactCall(`Unknown parameter '${text}'`, {
        request: { target: { toolName: text }, input: { rawArguments: { [text]: text, b: text.slice(1) } } },
      }),
    [['a'], ['ab']],
  ),
  {
    name: 'mask many arguments in a message',
    worst: {
      'texts of all lengths': (length) => {
        const args = Array.from({ length: Math.sqrt(length) }, (_, index) => 'a'.repeat(index + 6));
        const text = 'a'.repeat(length);
        return () => redactCall(text, { request: { target: { toolName: 't' }, input: { rawArguments: { args } } } });
      },
      'many texts': (length) => {
        const args = Array.from({ length: length / 10 }, (_, index) => `secret${index}`);
        return () =>
          redactCall('x'.repeat(2_000), { request: { target: { toolName: 't' }, input: { rawArguments: { args } } } });
      },
    },
  },
  onText('redact secrets', (text) => redact(text), [['a-secret-of-the-configuratio'], ['a-'], ['a']]),
  onText('error reply', (text) => toErrorReply(new ToolError('TOOL_ERROR', { message: text })), [['a'], ['\n'], ['é']]),
  onText('read a credential', (text) => thrown(() => readCredential([`Bearer ${text}`], [])), [
    ['a'],
    [' ', 'x'],
    ['bearer '],
  ]),
  onText('allow a tool', (text) => toolAllowed(['*a*a*b*', 'a*b'], text), [['a'], ['ab']]),
  onText('rank tools', (text) => ranker.rank(text, 10), [['aaaaaab1 '], ['a'], ['toolish '], ['aB']]),
  onText('name of a remote tool', (text) => registeredName(entry as never, text), [
    ['_', 'a', 'a'],
    ['a_', ''],
    ['.', 'x'],
  ]),
  onText('suspicious description', (text) => suspicions(definition(text)), [
    [' ', 'x'],
    ['ignore '],
    ['<'],
    ['a'],
    ['\n'],
  ]),
];

const operation = (operationId: string, url = 'http://example.com') =>
  parseSpec(
    JSON.stringify({
      openapi: '3.0.3',
      info: { title: 't', version: '1' },
      servers: [{ url }],
      paths: { '/a': { get: { operationId, responses: {} } } },
    }),
  );

const OPENAPI_ROWS: CallerTextRow[] = [
  onText('name of an operation', (text) => convertDocument(operation(text)).tools[0]?.name, [
    ['_', 'a', 'a'],
    ['_a'],
    ['.', 'x'],
  ]),
  onText('server of a document', (text) => thrown(() => convertDocument(operation('a', `http://h${text}`))), [
    ['/', 'x', 'x'],
    ['{'],
    ['?'],
  ]),
  onText('build a request', (text) => thrown(() => buildRequest(plan as never, `http://h/${text}`, { q: text })), [
    ['/', 'x', 'x'],
    ['a'],
    ['%'],
  ]),
  onText('encode for a URL', (text) => encodeUnreserved(text), [['a'], [' '], ['é']]),
  {
    name: 'summarise a result',
    worst: {
      'many items': (length) => {
        const value: Json = Array.from({ length: length / 10 }, (_, index) => ({ index, text: 'text' }));
        return () => summarise(value);
      },
      'nested items': (length) => {
        let value: Json = 'x'.repeat(length);
        for (let level = 0; level < 60; level += 1) value = [value, level];
        return () => summarise(value);
      },
    },
  },
];
const plan = { method: 'GET', path: '/a', parameters: [] };

const REGO_ROWS: CallerTextRow[] = [
  ...(['lower', 'upper', 'trim_space', 'strings.reverse'] as const).map((name) =>
    onText(`rego ${name}`, (text) => rego(name, text), [['a'], [' ', 'x'], ['ß'], ['é']]),
  ),
  ...(['indexof', 'contains', 'split', 'strings.count', 'trim', 'trim_left', 'trim_right'] as const).map((name) =>
    onText(`rego ${name}`, (text) => rego(name, text, 'aab'), [['a'], ['ab'], [' ']]),
  ),
  // Text and part both come from the caller: the part almost matches everywhere.
  ...(['indexof', 'contains', 'split', 'strings.count', 'indexof_n'] as const).map((name) =>
    onText(`rego ${name}, long part`, (text) => rego(name, text, `${text.slice(0, text.length / 2)}b`), [
      ['a'],
      ['ab'],
    ]),
  ),
  onText('rego replace, long part', (text) => rego('replace', text, `${text.slice(0, text.length / 2)}b`, 'c'), [
    ['a'],
  ]),
  onText('rego sprintf', (text) => thrown(() => rego('sprintf', text, [])), [
    ['%', 'x'],
    ['%-', ''],
    ['%0', ''],
    ['%1', ''],
  ]),
];

export const CALLER_TEXT: readonly CallerTextRow[] = [
  ...MESSAGE_ROWS,
  ...SCHEMA_ROWS,
  ...JSON_ROWS,
  ...TEXT_TOOL_ROWS,
  ...OPENAPI_ROWS,
  ...REGO_ROWS,
];
