/** Inspects an MCP server from this machine. Imported on demand, because the SDK is large. */
import { Client, SdkHttpError, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import type { Transport } from '@modelcontextprotocol/client';

/** An MCP server that answered. */
export interface InspectedServer {
  /** Its own name and version; empty where it gives none. */
  server: string;
  /** Names of its tools; undefined: it asks for a credential first. */
  tools: string[] | undefined;
}

/** A command line of a local MCP server, as in an entry of `mcp_servers`. */
export interface ServerCommand {
  command: string;
  args: readonly string[];
  env?: Readonly<Record<string, string>>;
  cwd?: string;
}

const URL_TIMEOUT_MS = 10_000;
const MAX_STDERR = 2_000;

/** Asks the server behind a URL for its tools. @throws Error when nothing there speaks MCP */
export async function inspectUrl(
  url: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<InspectedServer> {
  const requestInit = { headers: { ...headers } };
  try {
    return await inspect(new StreamableHTTPClientTransport(new URL(url), { requestInit }), URL_TIMEOUT_MS, signal);
  } catch (error) {
    const asksForCredential =
      error instanceof UnauthorizedError ||
      (error instanceof SdkHttpError && (error.status === 401 || error.status === 403));
    if (asksForCredential) return { server: '', tools: undefined };
    throw error;
  }
}

/**
 * Starts a local server, asks it for its tools, and ends it. As in the fleet, it gets the variables of its entry and a few common ones.
 * @throws Error with the server's standard error, when it does not speak MCP
 */
export async function inspectCommand(
  { command, args, env, cwd }: ServerCommand,
  withinMs: number,
  signal: AbortSignal,
): Promise<InspectedServer> {
  const environment = { ...getDefaultEnvironment(), ...env };
  const transport = new StdioClientTransport({ command, args: [...args], env: environment, cwd, stderr: 'pipe' });
  let written = '';
  transport.stderr?.on('data', (chunk: Buffer) => (written = (written + chunk.toString()).slice(-MAX_STDERR)));
  try {
    return await inspect(transport, withinMs, signal);
  } catch (error) {
    throw new Error([(error as Error).message, written.trim()].filter(Boolean).join('\n'), { cause: error });
  }
}

async function inspect(transport: Transport, withinMs: number, signal: AbortSignal): Promise<InspectedServer> {
  const timeout = withinMs / 2; // a silent server is asked twice: for its revision, and to initialize
  const versionNegotiation = { mode: 'auto', probe: { timeoutMs: timeout } } as const;
  const client = new Client({ name: 'fleetctl', version: '1' }, { versionNegotiation });
  client.onerror = () => undefined; // relevant errors reject the request they belong to
  // The SDK asks for the revision without the signal.
  const stop = (): void => void transport.close().catch(() => undefined);
  signal.addEventListener('abort', stop, { once: true });
  try {
    await client.connect(transport, { timeout, signal });
    const { tools } = await client.listTools(undefined, { timeout, signal });
    const { name = '', version = '' } = client.getServerVersion() ?? {};
    return { server: `${name} ${version}`.trim(), tools: tools.map((tool) => tool.name) };
  } finally {
    signal.removeEventListener('abort', stop);
    await client.close().catch(() => undefined);
  }
}
