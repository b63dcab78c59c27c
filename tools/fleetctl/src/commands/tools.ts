import type { RouteRequest } from '@toolfleet/client';
import { TOOLSET_OPTION, type Command } from '../command.js';
import { optionValue, type CommandLine } from '../command-line.js';
import { table, jsonText, shellWord, paint, plain } from '../terminal.js';
import type { JsonObject } from '@toolfleet/contracts';
import type { ToolLimits } from '@toolfleet/contracts/resources';
import { CliError, EXIT } from '../cli-error.js';
import { suggestion } from '@toolfleet/contracts/text';
import { getTool, type Gateway } from '../gateway.js';
import { membersOf, resolved } from '../tool-schema.js';

type ToolQuery = NonNullable<RouteRequest<'GET /api/v1/tools'>['query']>;

/** Verbs that print a text about tools, and its format. */
const TEXTS = { stubs: 'python', types: 'typescript' } as const;
const isTextVerb = (verb: string | undefined): verb is keyof typeof TEXTS =>
  verb !== undefined && Object.hasOwn(TEXTS, verb);

/** `fleetctl tools`. */
export const tools: Command = {
  usage: 'tools [list] | tools search <task> | tools stubs [<tool> …] | tools types [--python] [<tool> …]',
  options: [
    ['--category <word>', 'Only tools of this category or tag'],
    ['--source <name>', 'Only tools of this server or API'],
    ['--limit <number>', 'search, stubs, types: most tools'],
    ['--python', 'types: models for the Python client instead of TypeScript'],
    TOOLSET_OPTION,
  ],
  verbs: ['list', 'search', 'stubs', 'types'],
  known: ['category', 'source', 'limit', 'python', 'toolset'],
  complete: async (words, gateway, toolset) => {
    if (!isTextVerb(words[0])) return [];
    const names = await gateway.request('GET /api/v1/tools', { query: { detail: 'names', toolset } });
    return names as unknown as string[];
  },
  async run({ words: [verb = 'list', ...words], line, json, terminal, gateway }) {
    const isKnown = isTextVerb(verb) || (verb === 'search' ? words.length > 0 : verb === 'list' && words.length === 0);
    if (!isKnown) throw new CliError(`usage: fleetctl ${tools.usage}`, EXIT.usage);
    const query: ToolQuery = Object.fromEntries(
      ['category', 'source', 'limit', 'toolset'].map((option) => [option, optionValue(line, option)]),
    );
    if (verb === 'search') query.query = words.join(' ');
    if (isTextVerb(verb)) {
      const isPython = verb === 'types' && line.options.has('python');
      query.format = isPython ? 'pydantic' : TEXTS[verb];
      const names = isPython ? [...wordsBehind(line, 'python'), ...words] : words;
      if (names.length > 0) query.names = names.join(',');
      const text = (await gateway().request('GET /api/v1/tools', { query })) as unknown as string;
      terminal.out(json ? `${jsonText({ [verb]: text }, 2)}\n` : text);
      return EXIT.ok;
    }
    const body = await gateway().request('GET /api/v1/tools', { query });
    if (json) terminal.out(`${jsonText(body, 2)}\n`);
    else if (body.length === 0 && verb === 'list' && (query.source ?? query.category) !== undefined)
      throw new CliError(await nothingFound(gateway(), query), EXIT.failed);
    else if (body.length === 0) terminal.out('No tools\n');
    else {
      const rows = body.map((tool) => [
        tool.available === false ? `${tool.name} (unavailable)` : tool.name,
        tool.category,
        tool.cost_per_use === 0 ? 'free' : `$${tool.cost_per_use}`,
        firstSentence(tool.description),
      ]);
      terminal.out(table(['NAME', 'CATEGORY', 'COST', 'DESCRIPTION'], rows, terminal.width));
    }
    return 0;
  },
};

/** The words that the parser took for the value of a switch: `--python` may be an option with a value of a tool. */
const wordsBehind = (line: CommandLine, name: string): string[] =>
  (line.options.get(name) ?? []).filter((value) => value !== true);

/** Why a list is empty: an unknown category, with a similar one, or a source without tools that the caller may use. */
async function nothingFound(gateway: Gateway, { category, source }: ToolQuery): Promise<string> {
  const all = await gateway.request('GET /api/v1/tools');
  const known = new Set(all.flatMap((tool) => [tool.category, ...(tool.tags ?? [])]));
  if (category !== undefined && !known.has(category))
    return `No tool has category or tag ${JSON.stringify(category)}${suggestion(category, known)}`;
  return `No tools of source ${JSON.stringify(source)} (see "fleetctl sources")`;
}

function firstSentence(text: string): string {
  return /^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? text;
}

/** `fleetctl describe`. */
export const describe: Command = {
  usage: 'describe <tool>',
  options: [TOOLSET_OPTION],
  mostWords: 1,
  known: ['toolset'],
  async run({ words, line, json, terminal, gateway, signal }) {
    const [name] = words;
    if (name === undefined) throw new CliError('usage: fleetctl describe <tool>', EXIT.usage);
    const toolset = optionValue(line, 'toolset');
    const tool = await getTool(gateway(), name, signal, toolset);
    if (json) {
      terminal.out(`${jsonText(tool, 2)}\n`);
      return 0;
    }
    const cost = tool.cost_per_use === 0 ? 'free' : `$${tool.cost_per_use} per call`;
    terminal.out(
      `${paint(terminal, 'bold', tool.name)} ${tool.version}  (${tool.category}, ${cost})\n${limitsText(tool)}\n\n${wrapped(plain(tool.description), terminal.width)}\n\n`,
    );
    const rows = argumentRows(tool.parameters);
    terminal.out(
      rows.length === 0
        ? 'No arguments\n'
        : table(['ARGUMENT', 'TYPE', 'DEFAULT', 'DESCRIPTION'], rows, Number.POSITIVE_INFINITY),
    );
    terminal.out(`\n${exampleCall(tool, toolset)}\n`);
    return 0;
  },
};

/** The limits of a tool, as its calls have them. */
function limitsText({ rate_limit: rate, ...tool }: ToolLimits): string {
  const mb = (bytes: number): string => `${bytes / 2 ** 20} MiB`;
  const limits = [
    `${tool.timeout_seconds} s`,
    rate > 0 ? `${rate} calls a minute` : [],
    `requests of ${mb(tool.max_request_bytes)}`,
    tool.max_result_bytes === null ? [] : `results of ${mb(tool.max_result_bytes)}`,
    tool.memory_limit_mb === null ? [] : `${tool.memory_limit_mb} MiB of memory`,
  ];
  return `At most ${limits.flat().join(', ')}`;
}

/** Wraps text at the width of the terminal; without a terminal it is returned unchanged. */
function wrapped(text: string, width = Number.POSITIVE_INFINITY): string {
  let line = 0;
  return text.replaceAll(/(\s*)(\S+)/g, (_whole, space: string, word: string) => {
    const breaks = line > 0 && line + space.length + word.length > width;
    line = breaks || space.includes('\n') ? word.length : line + space.length + word.length;
    return (breaks ? '\n' : space) + word;
  });
}

/** Deepest members of objects that are shown. */
const MAX_DEPTH = 4;

/** The arguments of a tool as its options, members of objects and of the items of lists below them: `filter.name`, `tasks.0.name`. */
export function argumentRows(schema: JsonObject, root = schema, prefix = '', depth = 0): string[][] {
  const whole = resolved(schema, root);
  const required = (whole['required'] ?? []) as string[];
  return Object.entries(membersOf(whole, root)).flatMap(([name, property]) => {
    const items = property['items'] === undefined ? undefined : resolved(property['items'], root);
    const inner = items?.['properties'] ? { schema: items, mark: '.0.' } : { schema: property, mark: '.' };
    const row = [
      `${prefix}${name}${required.includes(name) ? ' *' : ''}`,
      typeText(property, items),
      property['default'] === undefined ? '' : jsonText(property['default']),
      String(property['description'] ?? ''),
    ];
    if (depth >= MAX_DEPTH) return [row];
    return [row, ...argumentRows(inner.schema, root, `${prefix}${name}${inner.mark}`, depth + 1)];
  });
}

function typeText(property: JsonObject, items: JsonObject | undefined): string {
  if (Array.isArray(property['enum'])) return property['enum'].map(String).join('|');
  const type = property['type'] ?? (property['properties'] ? 'object' : 'any');
  const text = Array.isArray(type) ? type.join('|') : String(type);
  return text === 'array' && items?.['type'] ? `array of ${String(items['type'])}` : text;
}

/** The command that calls a tool, with its required arguments, of objects with their required members. */
export function exampleCall(tool: { name: string; parameters: JsonObject }, toolset?: string): string {
  const schema = resolved(tool.parameters, tool.parameters);
  const required = (schema['required'] ?? []) as string[];
  const properties = membersOf(schema, tool.parameters);
  const inToolset = toolset === undefined ? '' : ` --toolset ${shellWord(toolset)}`;
  const words = required.flatMap((name) => exampleOptions(name, properties[name], tool.parameters));
  return `fleetctl call ${shellWord(tool.name)}${inToolset}${words.map((word) => ` ${word}`).join('')}`;
}

/** An option, of an object one for each of its required members. */
function exampleOptions(name: string, property: JsonObject = {}, root: JsonObject): string[] {
  const members = (property['required'] ?? []) as string[];
  const isNested = property['type'] === 'object' || property['properties'] !== undefined;
  if (!isNested || members.length === 0) return [`${shellWord(`--${name}`)} …`];
  const known = membersOf(property, root);
  return members.flatMap((member) => exampleOptions(`${name}.${member}`, known[member], root));
}
