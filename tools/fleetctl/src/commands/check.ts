import { faultLine, FleetFileError, parseFleetFiles, readText } from '@toolfleet/fleet-file';
import { CliError, EXIT } from '../cli-error.js';
import type { Command } from '../command.js';
import { jsonText } from '../terminal.js';

/** `fleetctl check`: the faults that the services of a fleet would report about a configuration file. */
export const check: Command = {
  usage: 'check <file> …',
  known: [],
  async run({ words, json, terminal }) {
    if (words.length === 0) throw new CliError(`usage: fleetctl ${check.usage}`, EXIT.usage);
    const { refused, entries, summary } = checkFiles(words);
    if (json) terminal.out(`${jsonText({ valid: refused.length + entries.length === 0, refused, entries }, 2)}\n`);
    else {
      for (const line of refused) terminal.out(`${line}\n`);
      for (const line of entries) terminal.out(`${line} (the entry would be ignored)\n`);
      if (refused.length > 0)
        terminal.out('Services refuse to start with this configuration, and ignore it when it is changed.\n');
      else terminal.out(`${summary}\n`);
    }
    return refused.length + entries.length === 0 ? EXIT.ok : EXIT.failed;
  },
};

/** Faults that refuse the files, and faults of single entries. */
function checkFiles(files: readonly string[]): { refused: string[]; entries: string[]; summary: string } {
  try {
    const read = parseFleetFiles(files.map(readText));
    const [sources, toolsets] = [read.openapi.length + read.mcp.length, Object.keys(read.toolsets).length];
    const summary = `${sources} enabled sources, ${toolsets} toolsets`;
    return { refused: [], entries: read.refused.flatMap(({ faults }) => faults.map(faultLine)), summary };
  } catch (error) {
    if (!(error instanceof FleetFileError)) throw error;
    return { refused: error.faults.map((fault) => `${error.file}: ${faultLine(fault)}`), entries: [], summary: '' };
  }
}
