import { specError, type Findings, type SpecRefusal } from '../findings.js';
import { arrayAt } from '../json-pointer.js';
import { ExternalRefs, RefResolver } from '../load/references.js';
import type { SpecDocument } from '../load/parse-spec.js';
import { CycleBreaker } from './break-cycles.js';
import { DefsCollector } from './collect-defs.js';
import { SchemaConverter } from './convert-schema.js';
import { DefinitionNames, toolNames } from './naming.js';
import { expandOperations, type RawOperation } from './expand-operations.js';
import { OpenApiTool, type ConvertOptions, type ToolContext } from './openapi-tool.js';
import { SecurityReader } from './read-security.js';

/** The result of a conversion. */
export interface Conversion {
  document: SpecDocument;
  /** In document order. Schemas are built when asked for. */
  tools: OpenApiTool[];
  /** Operations and paths that cannot become tools. */
  refused: SpecRefusal[];
  /** Whether operations or tags were named. */
  filtered: boolean;
  findings: Findings;
}

/**
 * Converts each operation of a document to a tool. Names are assigned before filters apply, so that a filter never renames a tool.
 * Nothing is dereferenced; only operations that need another document are refused.
 */
export function convertDocument(document: SpecDocument, options: ConvertOptions = {}): Conversion {
  const context = createContext(document, options);
  const expanded = expandOperations(document, context.refs, new ExternalRefs(context.refs));
  const all = [...expanded.operations, ...expanded.refused.flatMap(({ operation }) => operation ?? [])];
  const names = toolNames(all, options.namePrefix);
  const tools: OpenApiTool[] = [];
  for (const [index, operation] of expanded.operations.entries()) {
    const name = names[index] as string;
    if (isSelected(operation, name, options)) tools.push(new OpenApiTool(name, operation, context));
  }
  const refused: SpecRefusal[] = [];
  let next = expanded.operations.length;
  for (const { pointer, message, code, operation } of expanded.refused) {
    if (!operation || isSelected(operation, names[next++] as string, options)) refused.push({ pointer, message, code });
  }
  const filtered = (options.operations?.length ?? 0) + (options.tags?.length ?? 0) > 0;
  if (filtered) warnOfNames(all, names, options, document.findings);
  return { document, tools, refused, filtered, findings: document.findings };
}

/**
 * Rejects a document when all selected operations were refused, with the first reason, and when a filter selects none: a
 * mistyped name must not remove registered tools.
 * @throws CodedError SPEC_INVALID
 */
export function assertAnyTool({ tools, refused, filtered }: Conversion): void {
  const first = refused[0];
  if (tools.length > 0) return;
  if (first === undefined) {
    if (filtered) throw specError('NO_OPERATION_SELECTED', 'operations and tags select no operation of this document');
    return;
  }
  throw specError(first.code, `no operation is left: ${first.message.replace(/^[A-Z_]+: /, '')}`, {
    pointer: first.pointer,
    refused: refused.length,
  });
}

function createContext(document: SpecDocument, options: ConvertOptions): ToolContext {
  const refs = new RefResolver(document.root);
  const findings = document.findings;
  const names = new DefinitionNames(document.root);
  const complain = (pointer: string, message: string) => findings.warn(pointer, message);
  const request = new SchemaConverter(document, refs, names, 'request', options.acceptsPattern);
  const response = new SchemaConverter(document, refs, names, 'response', options.acceptsPattern);
  return {
    document,
    refs,
    request,
    response,
    requestDefs: new DefsCollector(request, new CycleBreaker(request, complain)),
    responseDefs: new DefsCollector(response, new CycleBreaker(response, complain)),
    security: new SecurityReader(document.root, refs, findings),
    findings,
    options,
    latest: {},
  };
}

function isSelected(operation: RawOperation, name: string, { operations, tags }: ConvertOptions): boolean {
  if (operations && operations.length > 0) {
    if (!operations.includes(operation.operationId ?? name) && !operations.includes(name)) return false;
  }
  if (tags && tags.length > 0) return arrayAt(operation.node, 'tags').some((tag) => tags.includes(tag as string));
  return true;
}

/** Warns about names in a filter that match no operation. */
function warnOfNames(
  all: readonly RawOperation[],
  names: readonly string[],
  { operations = [], tags = [] }: ConvertOptions,
  findings: Findings,
): void {
  const ids = new Set([...names, ...all.map(({ operationId }) => operationId)]);
  for (const id of operations) if (!ids.has(id)) findings.warn('/paths', `no operation has the operationId '${id}'`);
  const known = new Set(all.flatMap((operation) => arrayAt(operation.node, 'tags')));
  for (const tag of tags) if (!known.has(tag)) findings.warn('/paths', `no operation has the tag '${tag}'`);
}
