import { existsSync } from 'node:fs';
import { isJsonObject, isToolError } from '@toolfleet/contracts';
import { convertDocument, DEFAULT_MAX_SPEC_BYTES, parseSpec } from '@toolfleet/openapi';
import { CliError, EXIT } from '../cli-error.js';
import { fetchFailure, readSpec, readSpecBody } from './read-spec.js';

/** What a file or an address is, as this machine sees it. */
export type Look =
  | { kind: 'mcp' }
  | {
      kind: 'openapi';
      /** `info.title`. */
      title: string;
      version: string;
      operations: number;
      /** Origins of its servers. */
      origins: string[];
    };

const LOOK_TIMEOUT_MS = 10_000;
/** How MCP servers refuse a GET without a session: MCP 2025-11-25 Streamable HTTP asks for 405; others miss a key, a header or a media type. */
const REFUSALS = new Set([400, 401, 403, 405, 406, 415]);

/**
 * Finds out whether a file or URL is an OpenAPI document or an MCP server.
 * @throws CliError when it is neither, or cannot be reached from here
 */
export async function lookAt(where: string): Promise<Look> {
  if (!/^https?:\/\//i.test(where)) {
    if (existsSync(where)) return lookAtDocument(where, undefined, () => readSpec(where, DEFAULT_MAX_SPEC_BYTES));
    throw new CliError(
      `${where} is neither a URL nor a file. A command that speaks MCP over standard input and output belongs into the configuration file:\n  mcp_servers:\n    NAME: { command: ${where.split(' ', 1)[0]!}, args: [] }`,
      EXIT.usage,
    );
  }
  const response = await request(where);
  const type = response.headers.get('content-type') ?? '';
  if (REFUSALS.has(response.status) || (response.ok && type.includes('text/event-stream'))) {
    await response.body?.cancel();
    return { kind: 'mcp' };
  }
  if (!response.ok) throw new CliError(`${where} answers with HTTP ${response.status}`, EXIT.failed);
  return lookAtDocument(where, where, () => readSpecBody(response, DEFAULT_MAX_SPEC_BYTES));
}

async function request(url: string): Promise<Response> {
  const accept = 'application/json, application/yaml, text/event-stream, */*;q=0.5';
  try {
    return await fetch(url, { headers: { accept }, signal: AbortSignal.timeout(LOOK_TIMEOUT_MS) });
  } catch (error) {
    throw new CliError(
      `${url} cannot be reached from here (${fetchFailure(error)}). If the fleet can reach it, say what it is: sources add mcp NAME ${url}, or sources add openapi NAME ${url}`,
      EXIT.failed,
    );
  }
}

async function lookAtDocument(where: string, url: string | undefined, read: () => Promise<string>): Promise<Look> {
  const document = await readDocument(where, read);
  const { info, servers } = document.root;
  const urls = (Array.isArray(servers) ? servers : []).flatMap((one) =>
    isJsonObject(one) && typeof one.url === 'string' ? [one.url] : [],
  );
  const origins = urls.flatMap((one) => (URL.canParse(one, url) ? [new URL(one, url).origin] : []));
  return {
    kind: 'openapi',
    title: isJsonObject(info) && typeof info.title === 'string' ? info.title : '',
    version: document.version,
    operations: convertDocument(document, url === undefined ? {} : { specUrl: url }).tools.length,
    origins: [...new Set(origins)],
  };
}

async function readDocument(where: string, read: () => Promise<string>) {
  try {
    return parseSpec(await read());
  } catch (error) {
    if (!isToolError(error)) throw error;
    throw new CliError(`${where} is not an OpenAPI 3 document (${error.message})`, EXIT.failed);
  }
}
