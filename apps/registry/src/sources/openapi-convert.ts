/** Converts an OpenAPI document with the choices of an entry: to tool definitions, or to a validation report. */
import { isJsonObject, isToolError, type JsonObject } from '@toolfleet/contracts';
import type { DefinitionRegisterReply, OpenApiValidate, OpenApiValidateReply } from '@toolfleet/contracts/registry';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { EgressClient } from '@toolfleet/egress';
import { assertAnyTool, convertDocument, parseSpec, type Conversion, type SpecWarning } from '@toolfleet/openapi';
import type { Clock } from '@toolfleet/resilience';
import { bindingOptions, suppliedParameters, toOperationDefinition } from './openapi-definitions.js';
import { faultLine, readOpenApiEntry, type OpenApiEntry } from '@toolfleet/fleet-file';
import { unusedPatternsNote } from '../tool-settings.js';
import { sealOpenApiSecrets, type Seal } from './secrets.js';
import type { LoadedSpec } from './spec-reader.js';
import { isCheckable } from './uncheckable-patterns.js';

/** Tool definitions of a document, the operations that were refused, and warnings. */
export interface ConvertedEntry {
  definitions: ToolDefinition[];
  refused: DefinitionRegisterReply['refused'];
  warnings: SpecWarning[];
}

interface ConvertDeps {
  egress: Pick<EgressClient, 'check'>;
  clock: Clock;
  maxSpecBytes: number;
}

/** Warnings and refusals listed in one reply or log line. */
export const MAX_WARNINGS = 100;

/** Tools built in one turn of the event loop, so that a large document does not block other messages. */
const TOOLS_PER_TURN = 25;
/** Above this many tools, a warning tells how large the tool list is. */
const MANY_TOOLS = 200;

/**
 * Definitions of all operations that an entry selects. An operation is refused on its own when it has no server or the egress
 * rules refuse its server.
 * @throws ToolError SPEC_INVALID for an invalid document, or when no operation is left
 */
export async function convertEntry(
  entry: OpenApiEntry,
  spec: LoadedSpec,
  seal: Seal,
  { egress, clock, maxSpecBytes }: ConvertDeps,
): Promise<ConvertedEntry> {
  const conversion = convert(entry, spec, maxSpecBytes);
  assertAnyTool(conversion);
  const options = bindingOptions(entry, sealOpenApiSecrets(entry, seal));
  const info = conversion.document.root.info;
  const version = isJsonObject(info) ? info.version : undefined;
  const definitions: ToolDefinition[] = [];
  const refused: ConvertedEntry['refused'] = conversion.refused.map(({ pointer, message, code }) => ({
    name: pointer,
    code,
    message,
  }));
  for (const [index, tool] of conversion.tools.entries()) {
    if (index % TOOLS_PER_TURN === TOOLS_PER_TURN - 1) await clock.sleep(0);
    const violation = serverViolation(tool.baseUrl(), egress);
    if (violation) refused.push({ name: tool.name, ...violation });
    else definitions.push(toOperationDefinition(tool, tool.baseUrl() as string, entry, options, version));
  }
  const warnings = conversion.findings.list();
  const unused = unusedPatternsNote(entry.overrides, definitions);
  if (unused !== undefined) warnings.unshift({ pointer: '', message: unused });
  if (definitions.length > MANY_TOOLS) warnings.unshift(sizeWarning(definitions));
  return { definitions, refused, warnings };
}

/** What registering a document would give; nothing is registered. Problems of the document are part of the reply. */
export async function validateDocument(
  message: OpenApiValidate,
  maxSpecBytes: number,
  read: (entry: OpenApiEntry) => Promise<LoadedSpec>,
): Promise<OpenApiValidateReply> {
  const none = { valid: false, operations_count: 0, operations: [], base_url: message.base_url ?? '' };
  const { name: _name, ...fields } = message as OpenApiValidate & { name?: string };
  const entry = readOpenApiEntry('validate', fields as unknown as JsonObject);
  if (Array.isArray(entry))
    return { ...none, errors: entry.map((fault) => `The request is invalid: ${faultLine(fault)}`) };
  try {
    const conversion = convert(entry, await read(entry), maxSpecBytes);
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
      base_url: tools[0]?.baseUrl() ?? message.base_url ?? '',
      errors: refused.map(warningText),
      warnings: findings.list().slice(0, MAX_WARNINGS).map(warningText),
    };
  } catch (error) {
    if (!isToolError(error) || error.code !== 'SPEC_INVALID') throw error;
    return { ...none, errors: [error.message] };
  }
}

/** A warning or refusal as one line: JSON pointer and message. */
export function warningText({ pointer, message }: SpecWarning): string {
  return pointer === '' ? message : `${pointer}: ${message}`;
}

function convert(entry: OpenApiEntry, { text, url }: LoadedSpec, maxBytes: number): Conversion {
  return convertDocument(parseSpec(text, { maxBytes }), {
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

function serverViolation(
  baseUrl: string | undefined,
  egress: Pick<EgressClient, 'check'>,
): { code: string; message: string } | undefined {
  if (baseUrl === undefined) {
    return {
      code: 'SERVER_URL_MISSING',
      message: 'SERVER_URL_MISSING: the document names no absolute server: set base_url',
    };
  }
  try {
    egress.check(`${baseUrl}/`);
    return undefined;
  } catch (error) {
    if (!isToolError(error)) throw error;
    return {
      code: 'TARGET_ADDRESS_REFUSED',
      message: `TARGET_ADDRESS_REFUSED: the server ${baseUrl}: ${error.message}`,
    };
  }
}

function sizeWarning(definitions: readonly ToolDefinition[]): SpecWarning {
  const bytes = definitions.reduce((sum, { input_schema: schema }) => sum + JSON.stringify(schema).length, 0);
  const message = `${definitions.length} tools with ${bytes} bytes of schemas: narrow them with operations or tags`;
  return { pointer: '/paths', message };
}
