import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import { specError, type Findings } from '../findings.js';
import { objectAt, stringAt } from '../json-pointer.js';
import type { RawOperation } from './expand-operations.js';

/** How the base URL of an operation is chosen. */
export interface ServerOptions {
  /** Overrides every server of the document. */
  baseUrl?: string;
  /** Where the document came from: relative server URLs resolve against it. */
  specUrl?: string;
  /** Values of server variables. */
  variables?: { [name: string]: string };
  /** Names another server than the first: its URL, `name`, description, or index. */
  server?: string;
}

/**
 * Base URL of an operation without trailing slash, or undefined when there is none: `base_url`, else the server of the
 * operation, of its path item, of the document, else the origin of the document. Throws SPEC_INVALID with
 * SERVER_VARIABLE_INVALID when a configured value is outside the variable's `enum`.
 */
export function selectServer(
  root: JsonObject,
  operation: RawOperation,
  options: ServerOptions,
  findings: Findings,
): string | undefined {
  if (options.baseUrl !== undefined) return withoutTail(options.baseUrl);
  for (const [owner, pointer] of [
    [operation.node, operation.pointer],
    [operation.pathItem, operation.pathItemPointer],
    [root, ''],
  ] as const) {
    const servers = Array.isArray(owner.servers) ? owner.servers.filter(isJsonObject) : [];
    const server = pick(servers, options.server);
    if (server) return resolve(server, `${pointer}/servers`, options, findings);
  }
  return absolute('/', options.specUrl);
}

function pick(servers: JsonObject[], wanted: string | undefined): JsonObject | undefined {
  if (wanted === undefined) return servers[0];
  const named = servers.find((server) => [server.url, server.name, server.description].includes(wanted));
  return named ?? (/^\d+$/.test(wanted) ? servers[Number(wanted)] : undefined) ?? servers[0];
}

function resolve(server: JsonObject, pointer: string, options: ServerOptions, findings: Findings): string | undefined {
  const variables = objectAt(server, 'variables') ?? {};
  const template = stringAt(server, 'url') ?? '/';
  const url = template.replace(/\{([^{}]+)\}/g, (_, name: string) =>
    variable(name, Object.hasOwn(variables, name) ? variables[name] : undefined, pointer, options, findings),
  );
  if (url.includes('?'))
    findings.warn(pointer, 'the query of the server URL is not sent; declare its members as parameters');
  const resolved = absolute(url, options.specUrl);
  if (resolved === undefined)
    findings.warn(pointer, `the server URL "${url.slice(0, 200)}" is not absolute: set base_url when you register`);
  return resolved;
}

function variable(
  name: string,
  declared: Json | undefined,
  pointer: string,
  { variables = {} }: ServerOptions,
  findings: Findings,
): string {
  const node = isJsonObject(declared) ? declared : {};
  const given = Object.hasOwn(variables, name) ? variables[name] : undefined;
  const allowed = Array.isArray(node.enum) ? node.enum.map(String) : undefined;
  if (given !== undefined && allowed && !allowed.includes(given)) {
    throw specError(
      'SERVER_VARIABLE_INVALID',
      `the server variable "${name}" has to be one of ${allowed.join(', ').slice(0, 300)}`,
      { pointer },
    );
  }
  const value = given ?? node.default ?? allowed?.[0];
  if (value === undefined)
    findings.warn(
      pointer,
      `the server variable "${name}" has no default and is left out: set it in server_variables, or set base_url`,
    );
  return typeof value === 'object' || value === undefined ? '' : String(value);
}

/**
 * A relative URL is resolved against the document; an absolute one stays as written: parsing would wash out what the
 * egress guard has to see (user names, control characters, odd schemes).
 */
function absolute(url: string, specUrl: string | undefined): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(url)) return withoutTail(url);
  const base = specUrl !== undefined && /^https?:/i.test(specUrl) ? specUrl : undefined;
  try {
    return withoutTail(new URL(url.startsWith('//') && base === undefined ? `https:${url}` : url, base).href);
  } catch {
    return undefined;
  }
}

/** Query and fragment of a server URL are not sent; a trailing slash would double the one of the path. */
function withoutTail(url: string): string {
  return withoutTrailingSlashes(url.replace(/[?#].*$/s, ''));
}

/** A path or URL without slashes at its end. In one pass: `/\/+$/` looks at a row of slashes once for each of them. */
export function withoutTrailingSlashes(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === '/') end -= 1;
  return text.slice(0, end);
}
