import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isJsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { ExecMessage } from '@toolfleet/contracts/execution';
import { EgressClient } from '@toolfleet/egress';
import { convertDocument, parseSpec, planJson, type OpenApiTool } from '@toolfleet/openapi';
import { BreakerMap, SystemClock } from '@toolfleet/resilience';
import { ArgumentReader, boundedMatcher } from '@toolfleet/bounded-schema';
import { startRecordingServer, type RecordedRequest, type RecordingServer } from '@toolfleet/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Credentials } from '../src/credentials.js';
import { OAuthTokens } from '../src/oauth-tokens.js';
import { OpenApiExecutor } from '../src/openapi-executor.js';
import { VendorAdapters } from '../src/vendor-adapters/find-adapter.js';

/** A folder of OpenAPI documents by `npm run check:openapi-corpus`; the variable is set by it. */
const FOLDER = process.env.OPENAPI_CORPUS ?? '';
/** One of so many documents is tried, evenly over the names; 1 is all of them. */
const EVERY = Number(process.env.OPENAPI_CORPUS_EVERY ?? 1);
const files = existsSync(FOLDER)
  ? readdirSync(FOLDER, { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(json|ya?ml)$/.test(name))
      .toSorted()
      .filter((_, index) => index % EVERY === 0)
  : [];

it('has documents', () => {
  expect(files, 'run npm run check:openapi-corpus, which sets OPENAPI_CORPUS to a folder of documents').not.toEqual([]);
});

describe('documents of the corpus', () => {
  const clock = new SystemClock();
  let upstream: RecordingServer;
  let egress: EgressClient;
  let executor: OpenApiExecutor;

  beforeAll(async () => {
    upstream = await startRecordingServer();
    egress = new EgressClient({ allowlist: [], allowedEndpoints: [upstream.url] });
    executor = new OpenApiExecutor(
      {
        egress,
        credentials: new Credentials((value) => value, new OAuthTokens(egress, clock)),
        clock,
      },
      new BreakerMap({ consecutiveFailures: 5, recoveryMs: 60_000 }, clock),
      new VendorAdapters({} as never),
    );
  });
  afterAll(async () => {
    await egress.close();
    await upstream.stop();
  });

  it.each(files)(
    'every operation of %s arrives as it was meant',
    async (file) => {
      const document = parseSpec(readFileSync(join(FOLDER, file), 'utf8'));
      const { tools } = convertDocument(document, { baseUrl: upstream.url, acceptsPattern: isCheckable });
      const failures: string[] = [];
      for (const [index, tool] of tools.entries()) {
        const fault = await tryTool(tool, index % 10 === 0).catch((error: Error) => error.message);
        if (fault !== undefined) failures.push(`${tool.method} ${tool.path}: ${fault}`);
      }
      expect(failures).toEqual([]);
    },
    120_000,
  );

  /** Generates a minimal instance, executes it, and looks at what arrived; some are read as the gateway does (slow). */
  async function tryTool(tool: OpenApiTool, validated: boolean): Promise<string | undefined> {
    const schema = tool.inputSchema();
    const instance = minimal(schema, schema, 0) as JsonObject;
    const args = validated ? asRead(tool, schema, instance) : instance;
    upstream.requests.length = 0;
    const reply = await executor.execute(messageOf(tool, args), {
      remainingMs: 5_000,
      signal: AbortSignal.timeout(5_000),
      begin: async () => undefined,
    });
    if (!reply.ok) return reply.failure?.message;
    return faultOf(tool, args, upstream.last());
  }
});

/** Arguments as the gateway hands them on. The generator is simple; what it cannot satisfy is sent unchanged. */
function asRead(tool: OpenApiTool, schema: JsonObject, instance: JsonObject): JsonObject {
  const rules = { toolName: tool.name, refuseUnknown: !tool.idempotent, bodyProperty: 'body' };
  const read = new ArgumentReader(schema, rules).read(instance);
  return read.ok ? read.arguments : instance;
}

function faultOf(tool: OpenApiTool, args: JsonObject, request: RecordedRequest): string | undefined {
  if (request.method !== tool.method) return `method ${request.method}`;
  const [path = '', query = ''] = request.target.split('?');
  const [template = ''] = tool.path.split('?');
  const literals = template
    .split(/\{[^}]*\}/)
    .map((text) => encodeURI(decodeURI(text)).replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  if (!new RegExp(`^${literals.join('[^/]+')}$`).test(path)) return `path ${path} for ${template}`;
  if (/[{}]/.test(request.target)) return `unexpanded ${request.target}`;
  const names = new URLSearchParams(query);
  for (const parameter of tool.plan().parameters) {
    const value = args[parameter.argument];
    const empty =
      value === undefined || (typeof value === 'object' && (value === null || Object.keys(value).length === 0));
    if (!parameter.required || empty) continue;
    const spread = typeof value === 'object' && !Array.isArray(value);
    if (parameter.in === 'query' && !spread && !names.has(parameter.name)) return `query ${parameter.name} is missing`;
    if (parameter.in === 'header' && request.headers[parameter.name.toLowerCase()] === undefined) {
      return `header ${parameter.name} is missing`;
    }
    if (
      parameter.in === 'cookie' &&
      !spread &&
      !String(request.headers.cookie).includes(`${encodeURIComponent(parameter.name)}=`)
    ) {
      return `cookie ${parameter.name} is missing`;
    }
  }
  if (tool.plan().body?.required && args.body !== undefined && request.headers['content-type'] === undefined)
    return 'no body';
  return undefined;
}

function messageOf(tool: OpenApiTool, args: JsonObject): ExecMessage {
  return {
    call_id: 'call',
    attempt: 1,
    fence: 1,
    journalled: false,
    tool: tool.name,
    revision: '1',
    binding: {
      kind: 'openapi',
      collection: 'corpus',
      baseUrl: tool.baseUrl()!,
      operationId: tool.operationId,
      method: tool.method,
      path: tool.path,
      plan: planJson(tool.plan()),
    },
    arguments: args,
    context: { tenant_id: 't' },
  };
}

/** Smallest value that a schema asks for; no patterns, no formats. Shares no code with the conversion. */
function minimal(schema: Json | undefined, root: JsonObject, depth: number): Json {
  if (!isJsonObject(schema) || depth > 12) return 'x';
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.replace('#/$defs/', '');
    return minimal((root.$defs as JsonObject)[name], root, depth + 1);
  }
  for (const key of ['const', 'default'] as const) if (schema[key] !== undefined) return schema[key] as Json;
  for (const key of ['enum', 'examples'] as const) {
    const list = schema[key];
    if (Array.isArray(list) && list.length > 0) return list.find((value) => value !== null) ?? 'x';
  }
  for (const key of ['oneOf', 'anyOf'] as const) {
    const list = schema[key];
    if (!Array.isArray(list)) continue;
    const picked = minimal(
      list.find((branch) => !isJsonObject(branch) || branch.type !== 'null'),
      root,
      depth + 1,
    );
    if (!schema.properties) return picked;
    return isJsonObject(picked) ? { ...picked, ...object(schema, root, depth) } : picked;
  }
  const type = Array.isArray(schema.type) ? schema.type.find((entry) => entry !== 'null') : schema.type;
  if (Array.isArray(schema.allOf)) {
    const parts = schema.allOf.map((part) => minimal(part, root, depth + 1));
    if (!parts.every(isJsonObject) && !schema.properties) return parts[0] ?? 'x';
    return Object.assign({}, ...parts.filter(isJsonObject), object(schema, root, depth));
  }
  if (type === 'object' || schema.properties) {
    const made = object(schema, root, depth);
    return Object.keys(made).length < Number(schema.minProperties ?? 0) ? { ...made, k: 'v' } : made;
  }
  if (type === 'array') {
    const count = Math.max(1, Math.min(Number(schema.minItems ?? 1), 5));
    return Array.from({ length: count }, () => minimal(schema.items, root, depth + 1));
  }
  if (type === 'integer' || type === 'number')
    return Math.max(Number(schema.minimum ?? 1), Number(schema.exclusiveMinimum ?? 0) + 1);
  if (type === 'boolean') return true;
  return 'x'.repeat(Math.max(1, Number(schema.minLength ?? 1)));
}

function object(schema: JsonObject, root: JsonObject, depth: number): JsonObject {
  const out: JsonObject = {};
  const properties = isJsonObject(schema.properties) ? schema.properties : {};
  for (const name of Array.isArray(schema.required) ? (schema.required as string[]) : []) {
    out[name] = minimal(properties[name], root, depth + 1);
  }
  return out;
}

function isCheckable(pattern: string): boolean {
  try {
    return boundedMatcher(pattern, 'u') !== undefined;
  } catch {
    return false;
  }
}
