import { isJsonObject, isToolError } from '@toolfleet/contracts';
import { convertDocument, DEFAULT_MAX_SPEC_BYTES, parseSpec } from '@toolfleet/openapi';
import { CliError, EXIT } from '../cli-error.js';
import { inspectUrl, type InspectedServer } from '../inspect-server.js';
import { fetchFailure, readSpec, readSpecBody } from './read-spec.js';

/** The kind of a file or an address, as this machine sees it. */
export type Look =
  | ({ kind: 'mcp' } & InspectedServer)
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

/**
 * Finds out whether a file or URL is an OpenAPI document or an MCP server.
 * @param headers sent with every request
 * @throws CliError when it is neither, or cannot be reached from here
 */
export async function lookAt(
  where: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Look> {
  if (!/^https?:\/\//i.test(where))
    return lookAtDocument(where, undefined, () => readSpec(where, DEFAULT_MAX_SPEC_BYTES));
  const response = await request(where, headers, signal);
  const type = response.headers.get('content-type') ?? '';
  if (!response.ok || type.includes('text/event-stream')) {
    await response.body?.cancel();
    const fault = new CliError(`${where} answers a GET with HTTP ${response.status}`);
    return lookAtServer(where, headers, fault, signal);
  }
  try {
    return await lookAtDocument(where, where, () => readSpecBody(response, DEFAULT_MAX_SPEC_BYTES));
  } catch (error) {
    // Some MCP servers answer a GET with a page.
    return lookAtServer(where, headers, error as Error, signal);
  }
}

/** @param asDocument its fault as a document @throws CliError with both faults when it does not speak MCP either */
async function lookAtServer(
  where: string,
  headers: Readonly<Record<string, string>>,
  asDocument: Error,
  signal: AbortSignal,
): Promise<Look> {
  try {
    return { kind: 'mcp', ...(await inspectUrl(where, headers, signal)) };
  } catch (error) {
    throw new CliError(
      `${asDocument.message}, and does not answer MCP (${(error as Error).message}). If you know what it is: sources add mcp NAME ${where}, or sources add openapi NAME ${where}`,
    );
  }
}

async function request(
  url: string,
  headers: Readonly<Record<string, string>>,
  interrupted: AbortSignal,
): Promise<Response> {
  const accept = 'application/json, application/yaml, text/event-stream, */*;q=0.5';
  try {
    const signal = AbortSignal.any([interrupted, AbortSignal.timeout(LOOK_TIMEOUT_MS)]);
    return await fetch(url, { headers: { accept, ...headers }, signal });
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
  const { tools } = convertDocument(document, { specUrl: url });
  const declared = (Array.isArray(servers) ? servers : []).map((one) => (isJsonObject(one) ? one.url : undefined));
  // Of operations, with their variables filled in; a registration may also choose another one of the document.
  const urls = [...tools.map((tool) => tool.baseUrl()), ...declared].filter((one) => typeof one === 'string');
  const origins = urls.flatMap((one) => (URL.canParse(one, url) ? [new URL(one, url).origin] : []));
  return {
    kind: 'openapi',
    title: isJsonObject(info) && typeof info.title === 'string' ? info.title : '',
    version: document.version,
    operations: tools.length,
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
