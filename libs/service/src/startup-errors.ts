/**
 * Classifies errors of a start. A dependency that cannot be reached is retried; a configuration mistake ends the process with exit
 * code 78, a bug with 1.
 */

/** Codes of sockets, name resolution, and dependencies that are starting, failing over or overloaded. */
const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'ENETRESET',
  'ENOTFOUND',
  'EAI_AGAIN',
  'NATS_AWAY',
  'REDIS_AWAY',
  // the nats package, in requests during the start
  'TIMEOUT',
  'DISCONNECT',
  'CONNECTION_CLOSED',
  'CONNECTION_REFUSED',
  'CONNECTION_TIMEOUT',
  // PostgreSQL: starting, stopping, out of connections; a pooler without a server
  '57P01',
  '57P02',
  '57P03',
  '53300',
  '08000',
  '08001',
  '08003',
  '08004',
  '08006',
  '08P01',
  // another process is closing the file
  'SQLITE_BUSY',
  'SQLITE_LOCKED',
  // codes of ToolError
  'EXECUTOR_UNAVAILABLE',
  'SERVICE_UNAVAILABLE',
  'ATTEMPT_TIMED_OUT',
  'DEADLINE_EXCEEDED',
  'NETWORK_ERROR',
  'UPSTREAM_ERROR',
]);

/** Messages of Redis, ioredis, pg and nats where the error has no code. */
const UNREACHABLE_WORDS =
  /^(LOADING|MASTERDOWN|CLUSTERDOWN|READONLY|TRYAGAIN|UNBLOCKED|BUSY |NOREPLICAS|MISCONF|OOM )|Command timed out|Connection (is closed|terminated)|Stream isn't writeable|max retries per request|Failed to refresh slots cache|None of startup nodes|All sentinels are unreachable|timeout exceeded when trying to connect|socket hang up|not connected|server closed the connection/i;

/** Codes that a wrong or missing setting causes: a refused login, a file, a port, a certificate. */
const MISTAKES = new Set([
  'EADDRINUSE',
  'EADDRNOTAVAIL',
  'EACCES',
  'EPERM',
  'ENOENT',
  'ENOTDIR',
  'EEXIST',
  'EISDIR',
  'EROFS',
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
  'NATS_REFUSED',
  'ERR_INVALID_URL',
  // PostgreSQL: login, database, rights
  '28000',
  '28P01',
  '3D000',
  '42501',
  'SQLITE_CANTOPEN',
  'SQLITE_NOTADB',
  'SQLITE_READONLY',
  'SQLITE_PERM',
]);
/** The same for errors without a code. */
const MISTAKE_WORDS =
  /^(WRONGPASS|NOAUTH|NOPERM)\b|does not support SSL|password authentication failed|password must be a string|self.signed certificate/i;
const CERTIFICATE = /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;

/** `unreachable`: retry. `mistake`: the configuration is wrong. `bug`: the program is. */
type StartupErrorKind = 'unreachable' | 'mistake' | 'bug';

/** Classifies an error of a component's start by its own code and its causes'. */
export function classifyStartupError(error: unknown): StartupErrorKind {
  const chain = errorChain(error);
  if (chain.some((one) => one.startRefused === true)) return 'mistake';
  // A refused connection has the reason in its cause; a wrong certificate is a mistake, not an outage.
  const isMistake = ({ code, message }: Cause) =>
    MISTAKES.has(String(code)) || CERTIFICATE.test(String(code)) || MISTAKE_WORDS.test(String(message));
  if (chain.some(isMistake)) return 'mistake';
  const isUnreachable = chain.some(
    ({ code, name, message }) =>
      UNREACHABLE.has(String(code)) || name === 'TimeoutError' || UNREACHABLE_WORDS.test(String(message)),
  );
  return isUnreachable ? 'unreachable' : 'bug';
}

/** Classifies an error of building the components by the configuration alone. */
export function classifyBuildError(error: unknown): StartupErrorKind {
  const isBug = error instanceof TypeError || error instanceof ReferenceError || error instanceof SyntaxError;
  const { code } = (error ?? {}) as { code?: unknown };
  if (isBug && code !== 'ERR_INVALID_URL') return 'bug';
  return code === 'ERR_MODULE_NOT_FOUND' ? 'bug' : 'mistake';
}

interface Cause {
  code?: unknown;
  name?: unknown;
  message?: unknown;
  startRefused?: unknown;
}

/** The error, its causes and the members of aggregates. */
function errorChain(error: unknown, depth = 0): Cause[] {
  if (typeof error !== 'object' || error === null || depth > 5) return [];
  const { cause, errors } = error as { cause?: unknown; errors?: unknown };
  const members = Array.isArray(errors) ? errors : [];
  return [error as Cause, ...[cause, ...members].flatMap((next) => errorChain(next, depth + 1))];
}
