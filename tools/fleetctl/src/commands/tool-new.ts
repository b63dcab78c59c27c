import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { CliError, EXIT } from '../cli-error.js';
import { isLocal } from '../connection.js';
import { pause } from '../follow-call.js';
import { getTool, Refused } from '../gateway.js';
import type { Command, CommandContext } from '../command.js';
import { hasSwitch, optionValue } from '../command-line.js';
import { jsonText } from '../terminal.js';

/** Time until the fleet of `npm start` (it reads the folder every second) lists a new tool. */
const LISTED_WITHIN_MS = 10_000;
const LOOK_EVERY_MS = 200;

const TOOLSETS = ['compute', 'web', 'files', 'agent'];

/** `fleetctl tool new`: generates the file of a plugin tool. */
export const toolNew: Command = {
  usage: 'tool new <name> [--dir plugins] [--toolset compute]',
  options: [
    ['--dir <folder>', 'Plugin folder (BUILTIN_PLUGINS_DIR); default plugins'],
    ['--toolset <name>', 'compute, web, files or agent: which process runs it; default compute'],
    ['--force', 'Replace the file when it exists'],
  ],
  mostWords: 1,
  known: ['dir', 'toolset', 'force'],
  async run(context) {
    const { words, line, json, terminal, environment } = context;
    const [name] = words;
    if (name === undefined || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
      throw new CliError('usage: fleetctl tool new <name>; a name has 1 to 64 letters, digits, _ and -', EXIT.usage);
    }
    const toolset = optionValue(line, 'toolset') ?? 'compute';
    if (!TOOLSETS.includes(toolset)) throw new CliError(`--toolset takes one of ${TOOLSETS.join(', ')}`, EXIT.usage);
    const before = await listing(name, context);
    if (!hasSwitch(line, 'force') && before === 'listed')
      throw new CliError(`The fleet has a tool ${name}; --force writes the file anyway`);
    const folder = resolve(environment.cwd, optionValue(line, 'dir') ?? 'plugins');
    const file = join(folder, `${name.replaceAll('_', '-')}.tool.mjs`);
    mkdirSync(folder, { recursive: true });
    try {
      writeFileSync(file, toolTemplate(name, toolset), { flag: hasSwitch(line, 'force') ? 'w' : 'wx' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      throw new CliError(`${relative(environment.cwd, file)} exists; --force replaces it`);
    }
    const path = relative(environment.cwd, file);
    const start =
      relative(environment.cwd, folder) === 'plugins' ? 'npm start' : `BUILTIN_PLUGINS_DIR=${folder} npm start`;
    const waits = before === 'not listed' && isLocal(context.gateway().connection);
    const listed = waits ? await untilListed(name, context) : undefined;
    terminal.out(json ? `${jsonText({ file: path, name, listed })}\n` : `${path}\n`);
    if (listed === false)
      terminal.error(
        `The fleet does not list it yet. Was it started as ${start}? fleetctl health shows files that do not load\n`,
      );
    else if (!json)
      terminal.error(
        listed
          ? `The fleet lists it, and loads it again after every save:\nfleetctl call ${name} --text hello\n`
          : `The fleet (${start}) loads it within a second, and again after every save:\nfleetctl call ${name} --text hello\n`,
      );
    return EXIT.ok;
  },
};

/** Whether a running fleet has a tool of this name, taken for a plugin; `unknown` without a fleet. */
async function listing(
  name: string,
  { gateway, signal }: CommandContext,
): Promise<'listed' | 'not listed' | 'unknown'> {
  try {
    await getTool(gateway(), name, signal);
    return 'listed';
  } catch (error) {
    if (signal.aborted) throw error;
    return error instanceof Refused && error.status === 404 ? 'not listed' : 'unknown';
  }
}

async function untilListed(name: string, context: CommandContext): Promise<boolean> {
  for (const until = performance.now() + LISTED_WITHIN_MS; performance.now() < until;) {
    if ((await listing(name, context)) === 'listed') return true;
    await pause(LOOK_EVERY_MS, context.signal);
  }
  return false;
}

/** The generated file: a working tool with a comment at each place to change. */
function toolTemplate(name: string, toolset: string): string {
  return `// Your own tool, in the folder BUILTIN_PLUGINS_DIR (local mode: plugins), loaded again on every save in local mode.
// All fields: docs/write-a-tool.md

/** @type {import('@toolfleet/builtin-tools').Plugin} */
export default ({ defineTool, ok, ToolError }) =>
  defineTool({
    name: '${name}',
    version: '1.0.0',
    // Read by the model: what it does, when to use it, what it returns.
    description: 'Count the words of a text.',
    category: 'custom',
    toolset: '${toolset}',
    // JSON Schema. Arguments arrive here checked and converted ("5" is 5 already).
    inputSchema: {
      type: 'object',
      properties: {
        text: { type: 'string', description: 'The text', minLength: 1, maxLength: 100_000 },
      },
      required: ['text'],
      additionalProperties: false,
    },
    // Running it twice is the same as once: may be cached and tried again. Leave it out for anything with an effect.
    idempotent: true,
    timeoutSeconds: 10,
    handler({ text }, run) {
      const words = text.match(/\\S+/g) ?? [];
      if (words.length > 50_000) {
        // What the tool says no to; the model reads the message.
        throw new ToolError('TOOL_ERROR', { message: 'Too many words' });
      }
      // run.signal is aborted at the deadline: hand it to everything that waits. run.context has what contextKeys names.
      run.progress({ message: 'counted' });
      return ok({ words: words.length }, \`\${words.length} words\`);
    },
  });
`;
}
