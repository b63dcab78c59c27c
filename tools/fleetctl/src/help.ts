import type { Command } from './command.js';

const GLOBAL_OPTIONS = [
  ['-u, --url <url>', 'URL of the gateway (TOOLFLEET_URL, or what "npm start" wrote)'],
  ['-k, --key <key>', 'API key (TOOLFLEET_API_KEY; a file by TOOLFLEET_API_KEY_FILE)'],
  ['-j, --json', 'Output for programs'],
  ['-h, --help', 'Help of a command'],
] as const;

/** The page that names every command. */
export function generalHelp(commands: ReadonlyMap<string, Command>): string {
  const rows = [...commands].map(([name, command]) => [name, command.summary] as const);
  return `fleetctl: call and manage the tools of a fleet\n\n${columns(rows)}\n${columns(GLOBAL_OPTIONS)}\nExit codes: 0 done, 1 failed, 2 used wrongly, 3 no connection, 4 not allowed\n`;
}

/** The page of one command. */
export function commandHelp(command: Command): string {
  const uses = command.usage.split(' | ').map((use) => `  fleetctl ${use}\n`);
  return `${command.summary}\n\n${uses.join('')}\n${columns([...(command.options ?? []), ...GLOBAL_OPTIONS])}`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`).join('');
}
