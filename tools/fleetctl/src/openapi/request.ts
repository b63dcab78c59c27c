import { parseArgs } from 'node:util';
import { isToolError, ToolError, type JsonObject } from '@toolfleet/contracts';
import { inexactNumberMessage, parseExact } from '@toolfleet/contracts/json-text';
import { buildRequest, convertDocument, parseSpec, type BuiltRequest, type OpenApiTool } from '@toolfleet/openapi';
import { type CommandIo, readMaxBytes, readSpec } from './read-spec.js';
import { jsonText } from '../terminal.js';

const REQUEST_USAGE = `Usage: fleetctl openapi request <file|url> <tool> [--arguments JSON] [--json]

Prints the request that a call of the tool would send, without sending it. Secrets are masked.
Exit code 0, 1 when the arguments or the document are refused, 2 for usage errors.

  --arguments <json>         arguments of the call (default {})
  --base-url <url>           overrides the servers of the document
  --auth-type <type>         shows where bearer, basic, api_key or oauth2 credentials would go
  --api-key-name <name>      name of the API key (default X-API-Key)
  --api-key-location <place> header (default) or query
  --name-prefix <text>       prefix of the tool names
  --max-bytes <n>            largest document
`;

const OPTIONS = {
  arguments: { type: 'string' },
  'base-url': { type: 'string' },
  'auth-type': { type: 'string' },
  'api-key-name': { type: 'string' },
  'api-key-location': { type: 'string' },
  'name-prefix': { type: 'string' },
  'max-bytes': { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** `fleetctl openapi request`: prints the request of a call without sending it. @returns the exit code */
export async function runOpenapiRequest(args: readonly string[], io: CommandIo): Promise<number> {
  let parsed;
  try {
    parsed = parseArgs({ args: [...args], allowPositionals: true, options: OPTIONS });
  } catch (error) {
    io.stderr.write(`${(error as Error).message}\n\n${REQUEST_USAGE}`);
    return 2;
  }
  const { values, positionals } = parsed;
  const [source, name] = positionals;
  if (values.help || source === undefined || name === undefined || positionals.length > 2) {
    (values.help ? io.stdout : io.stderr).write(REQUEST_USAGE);
    return values.help ? 0 : 2;
  }
  try {
    const text = await readSpec(source, readMaxBytes(values['max-bytes'], io));
    const tool = findTool(text, name, {
      specUrl: /^https?:/i.test(source) ? source : undefined,
      baseUrl: values['base-url'],
      namePrefix: values['name-prefix'],
    });
    const baseUrl = tool.baseUrl();
    if (baseUrl === undefined)
      throw new ToolError('SPEC_INVALID', {
        message: 'SERVER_URL_MISSING: the document has no server; set --base-url',
      });
    const checked = await checkedArguments(tool, parseObject(values.arguments ?? '{}'));
    const request = buildRequest(tool.plan(), baseUrl, checked);
    showCredentials(request, values);
    io.stdout.write(values.json ? `${jsonText(asJson(request))}\n` : asText(request));
    return 0;
  } catch (error) {
    if (!isToolError(error)) throw error;
    io.stderr.write(`${error.message}\n`);
    return 1;
  }
}

function findTool(text: string, name: string, options: Parameters<typeof convertDocument>[1]): OpenApiTool {
  const { tools, refused } = convertDocument(parseSpec(text), options);
  const tool =
    tools.find((candidate) => candidate.name === name) ?? tools.find((candidate) => candidate.operationId === name);
  if (tool) return tool;
  const why = refused.find(({ message }) => message.includes(name))?.message;
  throw new ToolError('TOOL_NOT_FOUND', { message: why ?? `The document has no tool "${name}"` });
}

function parseObject(text: string): JsonObject {
  let value: unknown;
  let inexact: string | undefined;
  try {
    ({ value, inexact } = parseExact(text));
  } catch {
    // reported below
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    if (inexact === undefined) return value as JsonObject;
    throw new ToolError('ARGUMENTS_INVALID', { message: inexactNumberMessage(inexact) });
  }
  throw new ToolError('ARGUMENTS_INVALID', { message: '--arguments must be a JSON object' });
}

/** Coerces, completes and validates arguments as a call does. Imported on demand, because `inspect` needs no validator. */
async function checkedArguments(tool: OpenApiTool, args: JsonObject): Promise<JsonObject> {
  const { ArgumentReader } = await import('@toolfleet/bounded-schema');
  const reader = new ArgumentReader(tool.inputSchema(), {
    toolName: tool.name,
    refuseUnknown: !tool.idempotent,
    bodyProperty: 'body',
  });
  const read = reader.read(args);
  if (read.ok) return read.arguments;
  throw new ToolError('ARGUMENTS_INVALID', { message: read.faults.map((fault) => fault.message).join('\n') });
}

const MASK = '***';
const SECRET_HEADER = /authorization|cookie|token|secret|password|api-?key|signature/i;

function showCredentials(
  request: BuiltRequest,
  values: { 'auth-type'?: string; 'api-key-name'?: string; 'api-key-location'?: string },
): void {
  const type = values['auth-type'];
  if (type === 'bearer' || type === 'oauth2') request.headers.push(['Authorization', `Bearer ${MASK}`]);
  if (type === 'basic') request.headers.push(['Authorization', `Basic ${MASK}`]);
  if (type !== 'api_key') return;
  const name = values['api-key-name'] ?? 'X-API-Key';
  if (values['api-key-location'] !== 'query') request.headers.push([name, MASK]);
  else request.target += `${request.target.includes('?') ? '&' : '?'}${encodeURIComponent(name)}=${MASK}`;
}

function asJson(request: BuiltRequest): JsonObject {
  const headers = Object.fromEntries(request.headers.map(([name, value]) => [name, masked(name, value)]));
  const shown: JsonObject = {
    method: request.method,
    url: request.origin + request.target,
    target: request.target,
    headers,
  };
  if (typeof request.body === 'string') shown.body = request.body;
  else if (request.body) shown.body_base64 = Buffer.from(request.body).toString('base64');
  return shown;
}

function asText(request: BuiltRequest): string {
  const lines = [`${request.method} ${request.target} HTTP/1.1`, `Host: ${new URL(request.origin).host}`];
  for (const [name, value] of request.headers) lines.push(`${name}: ${masked(name, value)}`);
  const body = request.body === undefined ? '' : Buffer.from(request.body as string).toString('utf8');
  return `${lines.join('\n')}\n\n${body}${body === '' || body.endsWith('\n') ? '' : '\n'}`;
}

function masked(name: string, value: string): string {
  return SECRET_HEADER.test(name) ? value.replace(/(?<=^(?:Bearer|Basic) ).*$|^(?!Bearer |Basic ).*$/s, MASK) : value;
}
