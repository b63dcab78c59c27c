import { isToolError, type JsonObject } from '@toolfleet/contracts';
import type { OpenApiValidate, OpenApiValidateReply } from '@toolfleet/contracts/registry';
import { assertAnyTool, type SpecWarning } from '@toolfleet/openapi';
import { conversionOf } from './openapi-convert.js';
import { readOpenApiEntry, type OpenApiEntry } from './openapi-entry.js';
import type { FetchedSpec } from './openapi-spec-cache.js';

/** Warnings and refusals named in one answer or log line. */
export const SHOWN_WARNINGS = 100;

/** What a document would give, without registering anything. */
export async function validateOpenApi(
  message: OpenApiValidate,
  maxSpecBytes: number,
  read: (entry: OpenApiEntry) => Promise<FetchedSpec>,
): Promise<OpenApiValidateReply> {
  const none = { valid: false, operations_count: 0, operations: [], base_url: message.base_url ?? '' };
  const entry = readOpenApiEntry('validate', { ...message } as unknown as JsonObject);
  if (typeof entry === 'string') return { ...none, errors: [`The request ${entry}`] };
  try {
    const spec = await read(entry);
    const conversion = conversionOf(entry, spec.text, spec.url, maxSpecBytes);
    const { tools, refused, findings } = conversion;
    if (refused.length === 0) assertAnyTool(conversion);
    for (const tool of tools) tool.inputSchema(); // finds the warnings that only building the schemas shows
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
      errors: refused.map(shownWarning),
      warnings: findings.list().slice(0, SHOWN_WARNINGS).map(shownWarning),
    };
  } catch (error) {
    if (!isToolError(error) || error.code !== 'SPEC_INVALID') throw error;
    return { ...none, errors: [error.message] };
  }
}

/** A warning or refusal as people read it: where, and what. */
export function shownWarning({ pointer, message }: SpecWarning): string {
  return pointer === '' ? message : `${pointer}: ${message}`;
}
