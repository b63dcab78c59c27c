import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { CliError, EXIT } from './cli-error.js';
import { optionValue, type CommandLine } from './parse-argv.js';

/** Where the fleet is and how to prove who asks. */
export interface Connection {
  url: string;
  key: string | undefined;
  /** Where url and key come from, for messages. */
  from: string;
}

/** What `npm start` writes into `.toolfleet/local.json`, and what the user's own file may hold. */
interface ConnectionFile {
  url?: string;
  api_key?: string;
}

/** Surroundings of the process, handed in so that specs can give their own. */
export interface Surroundings {
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
}

/**
 * URL and key: flags, then TOOLFLEET_URL and TOOLFLEET_API_KEY (or TOOLFLEET_API_KEY_FILE), then `local.json` of
 * TOOLFLEET_STATE_DIR, else `.toolfleet/local.json` in this folder or one above it, then `fleetctl/config.json` in the user's
 * configuration folder (XDG). A state folder that is named and holds no fleet is an error: another fleet is not meant. A key found in a file
 * is only sent to the URL of that file, never to one named elsewhere. `ignored` names flags that mean something else.
 */
export function findConnection(
  line: CommandLine,
  { env, cwd }: Surroundings,
  ignored: ReadonlySet<string> = new Set(),
): Connection {
  const flag = (name: string) => (ignored.has(name) ? undefined : optionValue(line, name));
  const stateDir = env['TOOLFLEET_STATE_DIR'];
  const file = stateDir ? localFile(resolve(cwd, stateDir)) : (nearestLocalFile(cwd) ?? userFile(env));
  const url = flag('url') ?? env['TOOLFLEET_URL'] ?? file?.content.url;
  const ownKey = flag('key') ?? env['TOOLFLEET_API_KEY'] ?? keyFromFile(env);
  if (url === undefined) {
    throw new CliError(
      stateDir
        ? `No fleet runs from TOOLFLEET_STATE_DIR (${stateDir})`
        : 'No fleet found: start one with "npm start", or give --url, TOOLFLEET_URL or TOOLFLEET_STATE_DIR',
      EXIT.connection,
    );
  }
  if (!isFleetUrl(url)) throw new CliError(`Not a URL of a fleet: ${url}`, EXIT.usage);
  const sameFleet = file !== undefined && sameOrigin(url, file.content.url);
  return {
    url: url.replace(/\/+$/, ''),
    key: ownKey ?? (sameFleet ? file.content.api_key : undefined),
    from: sameFleet ? file.path : 'flags and environment',
  };
}

/** `http(s)://host…` */
export function isFleetUrl(text: string): boolean {
  return /^https?:\/\/[^/]/i.test(text) && URL.canParse(text);
}

type FoundFile = { path: string; content: ConnectionFile };

/** What a local fleet wrote into its state folder. */
function localFile(stateDir: string): FoundFile | undefined {
  const path = join(stateDir, 'local.json');
  const content = readConnection(path);
  return content && { path, content };
}

function nearestLocalFile(cwd: string): FoundFile | undefined {
  for (let folder = cwd; ; folder = dirname(folder)) {
    const found = localFile(join(folder, '.toolfleet'));
    if (found || dirname(folder) === folder) return found;
  }
}

/** The user's own file, after the XDG base directory specification. */
export function userFilePath(env: Surroundings['env']): string {
  const base = env['XDG_CONFIG_HOME'];
  return join(base?.startsWith('/') ? base : join(env['HOME'] ?? homedir(), '.config'), 'fleetctl', 'config.json');
}

function userFile(env: Surroundings['env']): FoundFile | undefined {
  const path = userFilePath(env);
  const content = readConnection(path);
  return content && { path, content };
}

function readConnection(path: string): ConnectionFile | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
  try {
    return JSON.parse(text) as ConnectionFile;
  } catch {
    throw new CliError(`${path} is not valid JSON`, EXIT.usage);
  }
}

function keyFromFile(env: Surroundings['env']): string | undefined {
  const path = env['TOOLFLEET_API_KEY_FILE'];
  if (!path) return undefined;
  try {
    return readFileSync(path, 'utf8').trim();
  } catch (error) {
    throw new CliError(`TOOLFLEET_API_KEY_FILE cannot be read: ${(error as Error).message}`, EXIT.usage);
  }
}

function sameOrigin(one: string, other: string | undefined): boolean {
  return other !== undefined && new URL(one).origin === new URL(other).origin;
}
