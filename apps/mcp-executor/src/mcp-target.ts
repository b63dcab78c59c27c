import { createHash } from 'node:crypto';
import { isJsonObject, ToolError, type Json, type JsonObject, type Milliseconds } from '@toolfleet/contracts';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import {
  LOCAL_SERVER_MEMORY_MB,
  MCP_REVISIONS,
  START_SECONDS,
  type McpBinding,
  type McpRevision,
} from '@toolfleet/contracts/tool-definition';
import { readOAuth, type OAuthOptions } from './oauth/oauth-options.js';
import type { TargetUser } from './user-requests.js';

/** A message to this executor. */
export type McpMessage = ExecMessage & { binding: McpBinding };

/** A local server process (local mode only). */
export interface StdioOptions {
  command: string;
  args: string[];
  env: Record<string, string>;
  cwd?: string;
  memoryLimitMb: number;
}

/** One remote server as its registration describes it, with variables not yet expanded. */
export interface McpTarget {
  server: string;
  transport: McpBinding['transport'];
  url: string;
  headers: Record<string, string>;
  oauth?: OAuthOptions;
  stdio?: StdioOptions;
  /** The registration (`crm` or `crm@acme`) for which secrets in the options were sealed; absent without sealed secrets. */
  registration?: string;
  /** Time until the server answers the first request of a session or process. */
  startMs: Milliseconds;
  /** Longest silence of one call; default: the time that the call has left. */
  timeoutMs?: Milliseconds;
  /** Calls may run longer than the longest silence, so the server is asked for progress even if the caller is not interested. */
  livesOnProgress: boolean;
  /** Default `MCP_MAX_RESPONSE_BYTES`. */
  maxResponseBytes?: number;
  /** The only protocol revision to use (`protocol_version`); default: the newest that both sides speak. */
  revision?: McpRevision;
  /** The protocol revision found by an earlier discovery (`UpstreamSession.prior`): no round trip before the first call. */
  prior?: JsonObject;
  /**
   * Capabilities to declare to servers of the 2025 revisions, for calls with callers that can be asked: these are declared once per session, so
   * calls with different ones have different sessions.
   */
  declared?: JsonObject;
  /** Number of the session or local process of a server of the 2025 revisions, for calls with callers that can be asked. */
  lane?: number;
  /** Hash of everything that identifies server and credential, before expansion. */
  key: string;
  /** The user that the requests act as; absent: the credential of the source. */
  user?: TargetUser;
}

/** The target of a call that acts as a user. Sessions of different grants are apart; the credential of the source is not sent. */
export function asUser(target: McpTarget, user: TargetUser): McpTarget {
  const ofUser = new Set(['authorization', user.header?.toLowerCase()]);
  const headers = Object.entries(target.headers).filter(([name]) => !ofUser.has(name.toLowerCase()));
  return {
    ...target,
    headers: Object.fromEntries(headers),
    oauth: undefined,
    user,
    key: `${target.key} ${user.grant}`,
  };
}

/** The name of the target for breakers and metrics: the origin only, because path and query may contain secrets. */
export function toBaseUrl(target: Pick<McpTarget, 'transport' | 'url' | 'server'>): string {
  if (target.transport === 'stdio') return `stdio:${target.server}`;
  try {
    return new URL(target.url).origin;
  } catch {
    return `invalid:${target.server}`;
  }
}

/**
 * Reads the connection options of a binding or a discovery. Unknown keys are ignored: some are read by the registry only.
 * @throws ToolError AUTH_NOT_CONFIGURED for options of the wrong shape, for the operator to correct
 */
export function readTarget(
  server: string,
  transport: McpTarget['transport'],
  url: string,
  options: JsonObject,
): McpTarget {
  const oauth = options['oauth'] === undefined || options['oauth'] === null ? undefined : readOAuth(options['oauth']);
  if (typeof oauth === 'string') throw wrong(server, oauth);
  const stdio = transport === 'stdio' ? readStdio(server, options) : undefined;
  const headers = readStrings(server, 'headers', options['headers']);
  const timeoutSeconds = readNumber(server, 'timeout_seconds', options['timeout_seconds']);
  const maxResponseBytes = readNumber(server, 'max_response_bytes', options['max_response_bytes']);
  const registration = typeof options['registration'] === 'string' ? options['registration'] : undefined;
  const revision = readRevision(server, options['protocol_version']);
  const oauthOptions = (options['oauth'] as Json | undefined) ?? null;
  const identity = [server, transport, url, headers, oauthOptions, stdio ?? null, revision];
  return {
    server,
    transport,
    url,
    headers,
    oauth,
    stdio,
    registration,
    livesOnProgress: readNumber(server, 'max_seconds', options['max_seconds']) !== undefined,
    startMs: (readNumber(server, 'start_seconds', options['start_seconds']) ?? START_SECONDS) * 1_000,
    timeoutMs: timeoutSeconds === undefined ? undefined : timeoutSeconds * 1_000,
    maxResponseBytes,
    revision,
    prior: isJsonObject(options['prior']) ? options['prior'] : undefined,
    key: createHash('sha256').update(JSON.stringify(identity)).digest('base64url'),
  };
}

function readStdio(server: string, options: JsonObject): StdioOptions {
  const { command, args = [], cwd } = options;
  if (typeof command !== 'string' || command === '') throw wrong(server, 'command');
  if (!Array.isArray(args) || !args.every((item) => typeof item === 'string')) throw wrong(server, 'args');
  if (cwd !== undefined && typeof cwd !== 'string') throw wrong(server, 'cwd');
  return {
    command,
    args: args as string[],
    env: readStrings(server, 'env', options['env']),
    cwd: cwd || undefined,
    memoryLimitMb: readNumber(server, 'memory_limit_mb', options['memory_limit_mb']) ?? LOCAL_SERVER_MEMORY_MB,
  };
}

function readStrings(server: string, name: string, value: Json | undefined): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isJsonObject(value)) throw wrong(server, name);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      if (typeof item !== 'string' && typeof item !== 'number' && typeof item !== 'boolean')
        throw wrong(server, `${name}.${key}`);
      return [key, String(item)];
    }),
  );
}

function readNumber(server: string, name: string, value: Json | undefined): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) throw wrong(server, name);
  return value;
}

function readRevision(server: string, value: Json | undefined): McpRevision | undefined {
  if (value === undefined || value === null) return undefined;
  const revision = MCP_REVISIONS.find((known) => known === value);
  if (revision === undefined) throw wrong(server, 'protocol_version');
  return revision;
}

function wrong(server: string, option: string): ToolError {
  return new ToolError('AUTH_NOT_CONFIGURED', {
    message: `The configuration of the MCP server ${server} is invalid: ${option}`,
    details: { server, option },
  });
}
