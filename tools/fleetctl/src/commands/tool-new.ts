import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { CliError, EXIT } from '../cli-error.js';
import type { Command, CommandContext } from '../command.js';
import { hasSwitch, optionValue } from '../parse-argv.js';
import { toolTemplate } from '../tool-template.js';
import { jsonText } from '../terminal.js';

const TOOLSETS = ['compute', 'web', 'files', 'agent'];

/** `fleetctl tool new`: the file of an own tool, ready to be called. */
export const toolNew: Command = {
  usage: 'tool new <name> [--dir plugins] [--toolset compute]',
  summary: 'Write the file of a tool of your own',
  options: [
    ['--dir <folder>', 'Plugin folder (BUILTIN_PLUGINS_DIR); default plugins'],
    ['--toolset <name>', 'compute, web, files or agent: which process runs it; default compute'],
    ['--force', 'Replace the file when it exists'],
  ],
  mostWords: 1,
  known: ['dir', 'toolset', 'force'],
  async run(context) {
    const { words, line, json, terminal, surroundings } = context;
    const [name] = words;
    if (name === undefined || !/^[A-Za-z0-9_-]{1,64}$/.test(name)) {
      throw new CliError('usage: fleetctl tool new <name>; a name has 1 to 64 letters, digits, _ and -', EXIT.usage);
    }
    const toolset = optionValue(line, 'toolset') ?? 'compute';
    if (!TOOLSETS.includes(toolset)) throw new CliError(`--toolset takes one of ${TOOLSETS.join(', ')}`, EXIT.usage);
    if (!hasSwitch(line, 'force') && (await exists(name, context)))
      throw new CliError(`The fleet has a tool ${name}; --force writes the file all the same`);
    const folder = resolve(surroundings.cwd, optionValue(line, 'dir') ?? 'plugins');
    const file = join(folder, `${name.replaceAll('_', '-')}.tool.mjs`);
    mkdirSync(folder, { recursive: true });
    try {
      writeFileSync(file, toolTemplate(name, toolset), { flag: hasSwitch(line, 'force') ? 'w' : 'wx' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      throw new CliError(`${relative(surroundings.cwd, file)} exists; --force replaces it`);
    }
    const path = relative(surroundings.cwd, file);
    terminal.out(json ? `${jsonText({ file: path, name })}\n` : `${path}\n`);
    if (!json) {
      const start =
        relative(surroundings.cwd, folder) === 'plugins' ? 'npm start' : `BUILTIN_PLUGINS_DIR=${folder} npm start`;
      terminal.error(
        `With the fleet running (${start}): fleetctl call ${name} --text hello\nEvery save loads it again.\n`,
      );
    }
    return EXIT.ok;
  },
};

/** True when a fleet is there and has a tool of the name: a plugin cannot take that of a builtin one. */
async function exists(name: string, { gateway, signal }: CommandContext): Promise<boolean> {
  try {
    await gateway().ask('GET', `/api/v1/tools/${encodeURIComponent(name)}`, undefined, signal);
    return true;
  } catch {
    return false;
  }
}
