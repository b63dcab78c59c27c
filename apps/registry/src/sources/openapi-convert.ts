import { isJsonObject, isToolError } from '@toolfleet/contracts';
import type { DefinitionRegisterReply } from '@toolfleet/contracts/registry';
import type { ToolDefinition } from '@toolfleet/contracts/tool-definition';
import type { EgressClient } from '@toolfleet/egress';
import {
  assertAnyTool,
  convertDocument,
  parseSpec,
  type Conversion,
  type ConvertOptions,
  type SpecWarning,
} from '@toolfleet/openapi';
import type { Clock } from '@toolfleet/resilience';
import { bindingOptions, definitionOfOperation, suppliedParameters } from './openapi-definitions.js';
import type { OpenApiEntry } from './openapi-entry.js';
import { storableSecrets, type Seal } from './openapi-secrets.js';
import { isCheckable } from './uncheckable-patterns.js';

/** A document as definitions, and what was left out. */
export interface ConvertedEntry {
  definitions: ToolDefinition[];
  refused: DefinitionRegisterReply['refused'];
  warnings: SpecWarning[];
}

/** Tools built between two turns of the event loop: a large document must not hold up other messages. */
const BATCH = 25;
/** Above this many tools the answer says how large the list is. */
const MANY_TOOLS = 200;

/** What converting needs of the process. */
export interface ConvertParts {
  egress: Pick<EgressClient, 'check'>;
  clock: Clock;
  maxSpecBytes: number;
}

/** Reads a document with the choices of an entry. @throws ToolError SPEC_INVALID */
export function conversionOf(
  entry: Partial<OpenApiEntry>,
  text: string,
  specUrl: string | undefined,
  maxBytes: number,
): Conversion {
  const options: ConvertOptions = {
    isSupplied: suppliedParameters({ name: '', ...entry }),
    acceptsPattern: isCheckable,
    ...(specUrl === undefined ? {} : { specUrl }),
    ...(entry.base_url ? { baseUrl: entry.base_url } : {}),
    ...(entry.operations ? { operations: entry.operations } : {}),
    ...(entry.tags ? { tags: entry.tags } : {}),
    ...(entry.name_prefix ? { namePrefix: entry.name_prefix } : {}),
    ...(entry.server_variables ? { variables: entry.server_variables } : {}),
    ...(entry.server === undefined ? {} : { server: entry.server }),
    ...(entry.schema_style ? { schemaStyle: entry.schema_style } : {}),
  };
  return convertDocument(parseSpec(text, { maxBytes }), options);
}

/**
 * All definitions of an entry. An operation without a server, or with one the egress rules refuse, is left out alone.
 * @throws ToolError SPEC_INVALID for the document as a whole, or when nothing is left
 */
export async function convertEntry(
  entry: OpenApiEntry,
  text: string,
  specUrl: string | undefined,
  seal: Seal,
  parts: ConvertParts,
): Promise<ConvertedEntry> {
  const conversion = conversionOf(entry, text, specUrl, parts.maxSpecBytes);
  assertAnyTool(conversion);
  const options = bindingOptions(entry, storableSecrets(entry, seal));
  const info = conversion.document.root.info;
  const version = isJsonObject(info) ? info.version : undefined;
  const definitions: ToolDefinition[] = [];
  const refused = conversion.refused.map(({ pointer, message, code }) => ({
    name: pointer,
    code: code as string,
    message,
  }));
  for (const [index, tool] of conversion.tools.entries()) {
    if (index % BATCH === BATCH - 1) await parts.clock.sleep(0);
    const fault = serverFault(tool.baseUrl(), parts.egress);
    if (fault) refused.push({ name: tool.name, ...fault });
    else definitions.push(definitionOfOperation(tool, tool.baseUrl() as string, entry, options, version));
  }
  const warnings = conversion.findings.list();
  if (definitions.length > MANY_TOOLS) warnings.unshift(sizeWarning(definitions));
  return { definitions, refused, warnings };
}

function serverFault(
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
