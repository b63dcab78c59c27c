import { isToolError, type JsonObject } from '@toolfleet/contracts';
import { convertDocument, type Conversion } from './convert/convert-document.js';
import type { OpenApiTool, ConvertOptions } from './convert/openapi-tool.js';
import type { SpecWarning } from './findings.js';
import { parseSpec, type SpecLimits } from './load/parse-spec.js';

/** The tools and findings of a document; field names are those of `fleetctl openapi inspect --json`. */
interface Inspection {
  source: string;
  /** Nothing was refused. */
  ok: boolean;
  /** Version as written; null when the document could not be read. */
  openapi: string | null;
  /** Operations found, refused ones included. */
  operations: number;
  tools: InspectedTool[];
  warnings: SpecWarning[];
  refused: SpecWarning[];
}

/** One tool of an inspected document. */
interface InspectedTool {
  name: string;
  method: string;
  path: string;
  operation_id: string;
  description: string;
  idempotent: boolean;
  input_schema: JsonObject;
  output_schema?: JsonObject;
}

/** How a document is inspected. */
export interface InspectOptions extends ConvertOptions, SpecLimits {
  /** File or URL, only shown. */
  source?: string;
}

/** Head and tail of an inspection: everything but the tools, which a caller may want one by one. */
export interface InspectionParts {
  conversion?: Conversion;
  openapi: string | null;
  /** Operations found, refused ones included. */
  operations: number;
  refused: SpecWarning[];
  /** Complete only after every tool was shown: building a schema may find more. */
  warnings(): SpecWarning[];
}

/** Reads a document and finds its tools without building their schemas. A document that cannot be read is a refusal. */
export function beginInspection(text: string, options: InspectOptions = {}): InspectionParts {
  try {
    const document = parseSpec(text, options);
    const conversion = convertDocument(document, options);
    return {
      conversion,
      openapi: document.version,
      operations: conversion.tools.length + conversion.refused.length,
      refused: conversion.refused.map(({ pointer, message }) => ({ pointer, message })),
      warnings: () => conversion.findings.list(),
    };
  } catch (error) {
    if (!isToolError(error)) throw error;
    const pointer = error.details?.pointer;
    const refused = [{ pointer: typeof pointer === 'string' ? pointer : '', message: error.message }];
    return { openapi: null, operations: 0, refused, warnings: () => [] };
  }
}

/** One tool as shown by an inspection. */
export function inspectTool(tool: OpenApiTool): InspectedTool {
  const shown: InspectedTool = {
    name: tool.name,
    method: tool.method,
    path: tool.path,
    operation_id: tool.operationId,
    description: tool.description,
    idempotent: tool.idempotent,
    input_schema: tool.inputSchema(),
  };
  const output = tool.outputSchema();
  if (output) shown.output_schema = output;
  if (tool.baseUrl() === undefined) tool.missingServer();
  return shown;
}

/**
 * Lists the tools of a document, its warnings with JSON pointers, and refused operations. Never throws because of the text: an
 * unreadable document yields `ok: false` with the reason and its place.
 */
export function inspectOpenApi(text: string, options: InspectOptions = {}): Inspection {
  const parts = beginInspection(text, options);
  const tools = parts.conversion?.tools.map(inspectTool) ?? [];
  return {
    source: options.source ?? '',
    ok: parts.refused.length === 0,
    openapi: parts.openapi,
    operations: parts.operations,
    tools,
    warnings: parts.warnings(),
    refused: parts.refused,
  };
}
