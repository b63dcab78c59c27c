/**
 * The child process that converts OpenAPI documents. Documents come from outside, and parsing a large one takes seconds: the pool
 * kills this process when the time is up.
 */
import { setFlagsFromString } from 'node:v8';
import { isJsonObject, isToolError, type JsonObject, type ToolError } from '@toolfleet/contracts';
import type { DefinitionRegisterReply, OpenApiValidateReply } from '@toolfleet/contracts/registry';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { OpenApiEntry } from '@toolfleet/fleet-file';
import { assertAnyTool, convertDocument, parseSpec, type Conversion, type SpecWarning } from '@toolfleet/openapi';
import { serveJobs } from '@toolfleet/resilience/child-program';
import { unusedPatternsNote } from '../tool-settings.js';
import { boundToOrigins, withDocumentServer } from './discovered-auth.js';
import { suppliedParameters, toOperationDefinition } from './openapi-definitions.js';
import type { LoadedSpec } from './spec-reader.js';
import { isCheckable } from './uncheckable-patterns.js';

/** Tool definitions of a document, the operations that were refused, and warnings. */
export interface ConvertedEntry {
  definitions: ToolDefinition[];
  refused: DefinitionRegisterReply['refused'];
  warnings: SpecWarning[];
}

/** Report of a validation about a converted document. */
type DocumentReport = Pick<OpenApiValidateReply, 'valid' | 'operations_count' | 'operations' | 'base_url'> & {
  refused: SpecWarning[];
  warnings: SpecWarning[];
};

/** A job of a child. */
export interface ConversionJob {
  entry: OpenApiEntry;
  spec: Pick<LoadedSpec, 'text' | 'url'>;
  maxSpecBytes: number;
  /** Connection options of every binding; absent for a report. */
  options?: JsonObject;
}

/** The outcome of a job; errors keep their code and details. */
export type ConversionOutcome =
  | { converted: ConvertedEntry }
  | { report: DocumentReport }
  | { failure: Pick<ToolError, 'code' | 'message' | 'details' | 'facts'> };

/** Above this many tools, a warning tells how large the tool list is. */
const MANY_TOOLS = 200;
/** Definitions together can be ten times their document, and documents are bounded. */
const MAX_RESULT = 512 * 1024 * 1024;

// V8 would double the young generation several times during a conversion: 17 to 19 times the document instead of at most 10.
setFlagsFromString('--semi-space-growth-factor=1');
serveJobs(async (job: ConversionJob) => () => outcomeOf(job), MAX_RESULT);

function outcomeOf(job: ConversionJob): ConversionOutcome {
  try {
    const conversion = convert(job);
    if (job.options) return { converted: toDefinitions(job.entry, conversion, job.options) };
    return { report: toReport(job.entry, conversion) };
  } catch (error) {
    if (!isToolError(error)) throw error;
    const { code, message, details, facts } = error;
    return { failure: { code, message, details, facts } };
  }
}

function toDefinitions(entry: OpenApiEntry, conversion: Conversion, options: JsonObject): ConvertedEntry {
  assertAnyTool(conversion);
  const info = conversion.document.root.info;
  const version = isJsonObject(info) ? info.version : undefined;
  const definitions: ToolDefinition[] = [];
  const refused: ConvertedEntry['refused'] = conversion.refused.map(({ pointer, message, code }) => ({
    name: pointer,
    code,
    message,
  }));
  const baseUrls = conversion.tools.flatMap((tool) => tool.baseUrl() ?? []);
  const auth = entry.auth && withDocumentServer(entry.auth, conversion.document.root, baseUrls[0]);
  const found = { ...entry, auth: boundToOrigins(auth, baseUrls) };
  for (const tool of conversion.tools) {
    const baseUrl = tool.baseUrl();
    if (baseUrl === undefined) refused.push({ name: tool.name, code: 'SERVER_URL_MISSING', message: NO_SERVER });
    else definitions.push(toOperationDefinition(tool, baseUrl, found, options, version));
  }
  const warnings = conversion.findings.list();
  const unused = unusedPatternsNote(entry.overrides, definitions);
  if (unused !== undefined) warnings.unshift({ pointer: '', message: unused });
  if (definitions.length > MANY_TOOLS) warnings.unshift(sizeWarning(definitions));
  return { definitions, refused, warnings };
}

const NO_SERVER = 'SERVER_URL_MISSING: the document names no absolute server: set base_url';

function toReport(entry: OpenApiEntry, conversion: Conversion): DocumentReport {
  const { tools, refused, findings } = conversion;
  if (refused.length === 0) assertAnyTool(conversion);
  // Schemas are built lazily, and building them adds warnings.
  for (const tool of tools) tool.inputSchema();
  return {
    valid: tools.length > 0 || refused.length === 0,
    operations_count: tools.length,
    operations: tools.map(({ operationId, method, path, description }) => ({
      operation_id: operationId,
      method,
      path,
      description,
    })),
    base_url: tools[0]?.baseUrl() ?? entry.base_url ?? '',
    refused: refused.map(({ pointer, message }) => ({ pointer, message })),
    warnings: findings.list(),
  };
}

function convert({ entry, spec: { text, url }, maxSpecBytes }: ConversionJob): Conversion {
  return convertDocument(parseSpec(text, { maxBytes: maxSpecBytes }), {
    isSupplied: suppliedParameters(entry),
    acceptsPattern: isCheckable,
    specUrl: url || undefined,
    baseUrl: entry.base_url || undefined,
    operations: entry.operations,
    tags: entry.tags,
    namePrefix: entry.name_prefix || undefined,
    variables: entry.server_variables,
    server: entry.server,
    schemaStyle: entry.schema_style,
  });
}

function sizeWarning(definitions: readonly ToolDefinition[]): SpecWarning {
  const bytes = definitions.reduce((sum, { input_schema: schema }) => sum + JSON.stringify(schema).length, 0);
  const message = `${definitions.length} tools with ${bytes} bytes of schemas: narrow them with operations or tags`;
  return { pointer: '/paths', message };
}
