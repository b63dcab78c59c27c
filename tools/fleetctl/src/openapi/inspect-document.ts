import { isToolError, type JsonObject } from '@toolfleet/contracts';
import {
  convertDocument,
  parseSpec,
  type Conversion,
  type ConvertOptions,
  type OpenApiTool,
  type SpecLimits,
  type SpecWarning,
} from '@toolfleet/openapi';

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
export type InspectOptions = ConvertOptions & SpecLimits;

/** Head and tail of an inspection: everything but the tools, for one by one use. */
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
