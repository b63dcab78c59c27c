import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { CliError, EXIT } from './cli-error.js';
import { optionValue, type CommandLine } from './command-line.js';

/** Where the fleet is, and the key to authenticate with. */
export interface Connection {
  url: string;
  key: string | undefined;
  /** Where URL and key were found, for messages. */
  from: string;
}

/** Content of `.toolfleet/local.json` by `npm start`, and of the user's own file. */
interface ConnectionFile {
  url?: string;
  api_key?: string;
}

/** The process as commands see it. Specs pass their own. */
export interface Environment {
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
}

/**
 * Finds URL and key in this order: flags; TOOLFLEET_URL and TOOLFLEET_API_KEY (or TOOLFLEET_API_KEY_FILE); `local.json` in
 * TOOLFLEET_STATE_DIR, or else in `.toolfleet` of this folder or one above; `fleetctl/config.json` in the user's configuration
 * folder (XDG). A TOOLFLEET_STATE_DIR without a fleet is an error, so that no other fleet is used by mistake. A key from a file
 * is sent only to the URL in the same file.
 * @param ignored options that are arguments of a tool here
 * @throws CliError when no fleet is found
 */
export function findConnection(
  line: CommandLine,
  { env, cwd }: Environment,
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
        : 'No fleet found; start one with "npm start", or set --url, TOOLFLEET_URL or TOOLFLEET_STATE_DIR',
      EXIT.connection,
    );
  }
  if (!isFleetUrl(url)) throw new CliError(`Invalid URL ${url}; it must start with http:// or https://`, EXIT.usage);
  const sameFleet = file !== undefined && sameOrigin(url, file.content.url);
  return {
    url: url.replace(/\/+$/, ''),
    key: ownKey ?? (sameFleet ? file.content.api_key : undefined),
    from: sameFleet ? file.path : 'flags and environment',
  };
}

/** Whether `npm start` runs the fleet on this machine and wrote its address. */
export const isLocal = ({ from }: Connection): boolean => basename(from) === 'local.json';

/** True for `http(s)://host…`. */
export function isFleetUrl(text: string): boolean {
  return /^https?:\/\/[^/]/i.test(text) && URL.canParse(text);
}

type FoundFile = { path: string; content: ConnectionFile };

/** The file that a local fleet wrote into its state folder. */
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

/** The user's own file, according to the XDG Base Directory Specification. */
export function userFilePath(env: Environment['env']): string {
  const base = env['XDG_CONFIG_HOME'];
  return join(base?.startsWith('/') ? base : join(env['HOME'] ?? homedir(), '.config'), 'fleetctl', 'config.json');
}

function userFile(env: Environment['env']): FoundFile | undefined {
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

function keyFromFile(env: Environment['env']): string | undefined {
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
