/** For each builtin tool a call that works and calls that do not, as a model would make them; run through the real entry points. */
import { expect } from 'vitest';

/** Arguments, and what a program gets (matched as an object). */
export type GoodCall = readonly [args: object, output: object];
/** Arguments, the code of the refusal or failure, and a part of the message. */
export type BadCall = readonly [args: object, code: string, told: RegExp];

/** Calls of one tool. */
export interface ToolCalls {
  good: readonly GoodCall[];
  bad: readonly BadCall[];
}

/** Session of the workspace that the files tools get; the model never names it. */
export const SESSION = 'builtin-tools';
/** Files of that workspace before the calls. */
export const SEEDED = { 'src/main.py': 'print(1)\nprint(2)\n', 'edit.txt': 'debug = True\n', 'old/a.txt': 'old' };

/** Every tool of the manifest; `site` is an origin the fleet may read. */
export const callsOf = (site: string): Record<string, ToolCalls> => ({
  calculator: {
    good: [[{ expression: '2 * (3 + 4)' }, { result: 14, value: '14' }]],
    bad: [
      [{ expression: '2 +' }, 'TOOL_ERROR', /position|end/i],
      [{}, 'ARGUMENTS_INVALID', /expression/],
    ],
  },
  json_process: {
    good: [[{ json_string: '{"a":[1,2,3]}', operation: 'query', query: '$.a[?@ > 1]' }, { result: [2, 3] }]],
    bad: [
      [{ json_string: '{"a":', operation: 'parse' }, 'TOOL_ERROR', /line 1/],
      [{ json_string: '{}', operation: 'burn' }, 'ARGUMENTS_INVALID', /operation/],
    ],
  },
  text_process: {
    good: [
      [{ text: 'Hello world', operation: 'case', to: 'snake' }, { result: 'hello_world' }],
      [
        { text: '', operation: 'count' },
        { characters: 0, words: 0 },
      ],
    ],
    bad: [
      [{ text: 'a', operation: 'regex', find: '(' }, 'TOOL_ERROR', /regular expression/i],
      [{ text: 'a', operation: 'case' }, 'TOOL_ERROR', /needs the argument to/],
    ],
  },
  get_weather: {
    good: [[{ city: 'Lisbon' }, { city: 'Lisbon', simulated: true }]],
    bad: [[{ city: '42' }, 'TOOL_ERROR', /Not the name of a city/]],
  },
  file_read: {
    good: [
      [
        { path: 'src/main.py', offset: 2, limit: 1 },
        { content: 'print(2)', more: true },
      ],
    ],
    bad: [[{ path: 'src/none.py' }, 'TOOL_ERROR', /No such file or directory: src\/none.py/]],
  },
  file_write: {
    good: [
      [
        { path: 'made.txt', content: 'hello' },
        { path: 'made.txt', bytes: 5 },
      ],
    ],
    bad: [[{ path: 'src/main.py', content: '', mode: 'create' }, 'TOOL_ERROR', /Already exists/]],
  },
  file_edit: {
    good: [
      [{ path: 'edit.txt', old_text: 'True', new_text: 'False' }, { replaced: 1 }],
      [{ path: 'edit.txt', old_text: 'debug = ', new_text: '' }, { replaced: 1 }],
    ],
    bad: [[{ path: 'edit.txt', old_text: 'nowhere', new_text: '' }, 'TOOL_ERROR', /does not occur/]],
  },
  file_delete: {
    good: [[{ path: 'old', recursive: true }, { deleted: 2 }]],
    bad: [[{ path: 'src' }, 'TOOL_ERROR', /not empty/]],
  },
  file_list: {
    good: [
      [{ pattern: '**/*.py' }, { count: 1, entries: [expect.objectContaining({ path: 'src/main.py', size: 18 })] }],
    ],
    bad: [[{ path: 'nowhere' }, 'TOOL_ERROR', /No such file or directory: nowhere/]],
  },
  file_exists: {
    good: [[{ path: 'src' }, { exists: true, type: 'directory' }]],
    bad: [[{ path: '' }, 'ARGUMENTS_INVALID', /path/]],
  },
  file_mkdir: {
    good: [[{ path: 'reports/2026' }, { created: true }]],
    bad: [[{ path: 'src/main.py/below' }, 'TOOL_ERROR', /Not a directory/]],
  },
  file_search: {
    good: [
      [
        { query: 'print\\(2', use_regex: true },
        { count: 1, more: false },
      ],
    ],
    bad: [[{ query: '(', use_regex: true }, 'TOOL_ERROR', /Invalid regular expression/]],
  },
  fetch_page: {
    good: [
      [
        { url: `${site}/article`, extract_type: 'structured' },
        { title: 'The harbour', text: expect.stringContaining('rebuilt in three stages'), status: 200 },
      ],
    ],
    bad: [
      [{ url: `${site}/none` }, 'UPSTREAM_ERROR', /HTTP 404: Nothing here/],
      [{ url: `${site}/private` }, 'TOOL_ERROR', /robots.txt of .* does not allow/],
      [{ url: `${site}/article`, extract_type: 'pictures' }, 'ARGUMENTS_INVALID', /extract_type/],
    ],
  },
  crawl_batch: {
    good: [[{ urls: [`${site}/article`, `${site}/none`] }, { succeeded: 1, failed: 1 }]],
    bad: [[{ urls: Array.from({ length: 11 }, (_, n) => `${site}/${n}`) }, 'ARGUMENTS_INVALID', /urls/]],
  },
  web_search: {
    good: [[{ query: 'harbours', max_results: '2' }, { results: [{}, {}] }]],
    bad: [[{ query: '' }, 'ARGUMENTS_INVALID', /query/]],
  },
  multi_agent: {
    good: [
      [
        { tasks: [{ name: 'sum', instruction: 'CALL calculator {"expression":"20+22"}', tools: ['calculator'] }] },
        { success: true, total: 1, results: [{ task_name: 'sum', success: true, response: 'Result: 42' }] },
      ],
    ],
    bad: [[{ tasks: [] }, 'ARGUMENTS_INVALID', /tasks/]],
  },
});

/** Asks 2^30 times whether an array is a string. */
const SCHEMA_BOMB = {
  $ref: '#/$defs/a30',
  $defs: Object.fromEntries(
    Array.from({ length: 31 }, (_, n) => [
      `a${n}`,
      n === 0 ? { type: 'string' } : { anyOf: [{ $ref: `#/$defs/a${n - 1}` }, { $ref: `#/$defs/a${n - 1}` }] },
    ]),
  ),
};

/** Calls that try to get out, to get in, or never to end: tool, arguments, code, a part of the message. */
export const hostileCalls = (site: string, forbidden: string): (readonly [string, ...BadCall])[] => [
  ['file_read', { path: '../../../etc/passwd' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_read', { path: '/etc/passwd' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_read', { path: 'src\\..\\..\\x' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_read', { path: 'planted-link' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_read', { path: 'planted-folder/passwd' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_list', { path: '..' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_exists', { path: '~/x' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_mkdir', { path: 'a/../../b' }, 'TOOL_ERROR', /Path is outside project directory/],
  ['file_search', { query: 'root', path: '../..' }, 'TOOL_ERROR', /Path is outside project directory/],
  // The address in another spelling, by redirect, by another protocol.
  ['fetch_page', { url: `${forbidden}/secret` }, 'EGRESS_REFUSED', /./],
  ['fetch_page', { url: forbidden.replace('127.0.0.1', '2130706433') }, 'EGRESS_REFUSED', /./],
  ['fetch_page', { url: forbidden.replace('127.0.0.1', '[::ffff:127.0.0.1]') }, 'EGRESS_REFUSED', /./],
  ['fetch_page', { url: forbidden.replace('127.0.0.1', 'localhost') }, 'EGRESS_REFUSED', /./],
  ['fetch_page', { url: `${site}/away` }, 'EGRESS_REFUSED', /./],
  ['fetch_page', { url: 'http://169.254.169.254/latest/meta-data/' }, 'EGRESS_REFUSED', /./],
  ['fetch_page', { url: 'file:///etc/passwd' }, 'TOOL_ERROR', /Not a web address/],
  // Bombs.
  ['calculator', { expression: '9^9^9^9' }, 'TOOL_ERROR', /./],
  ['calculator', { expression: `${'('.repeat(2_000)}1${')'.repeat(2_000)}` }, 'TOOL_ERROR', /./],
  ['text_process', { text: `${'a'.repeat(40)}!`, operation: 'regex', find: '^(a+)+$' }, 'TOOL_ERROR', /longer than/],
  ['json_process', { json_string: '[]', operation: 'validate', schema: SCHEMA_BOMB }, 'TOOL_ERROR', /apply more than/],
  [
    'json_process',
    { json_string: `${'['.repeat(5_000)}${']'.repeat(5_000)}`, operation: 'parse' },
    'TOOL_ERROR',
    /deep/,
  ],
  ['text_process', { text: 'x'.repeat(1_000_001), operation: 'count' }, 'ARGUMENTS_INVALID', /text/],
];
