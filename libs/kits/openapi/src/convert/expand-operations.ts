import { isJsonObject, type Json, type JsonObject } from '@toolfleet/base';
import type { SpecRefusal } from '../findings.js';
import { escapeToken, objectAt, stringAt } from '../json-pointer.js';
import type { ExternalRef, ExternalRefs, Followed, RefResolver } from '../load/references.js';
import type { SpecDocument } from '../load/parse-spec.js';

/** One operation of a document, its path item followed. */
export interface RawOperation {
  /** Upper case. */
  method: string;
  /** Template as declared, without fragment. */
  path: string;
  operationId?: string;
  node: JsonObject;
  pointer: string;
  pathItem: JsonObject;
  pathItemPointer: string;
}

const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

/** Operations in document order, and those that cannot become tools because they need another document. */
interface ExpandedOperations {
  operations: RawOperation[];
  refused: (SpecRefusal & { operation?: RawOperation })[];
}

/** Finds every operation of `paths`. Broken path items and operations are refused one by one, never the whole document. */
export function expandOperations(
  document: SpecDocument,
  refs: RefResolver,
  externals: ExternalRefs,
): ExpandedOperations {
  const out: ExpandedOperations = { operations: [], refused: [] };
  const paths = objectAt(document.root, 'paths');
  if (!paths) document.findings.warn('', 'the document has no paths: it gives no tools');
  for (const path of Object.keys(paths ?? {})) {
    if (path.startsWith('x-')) continue;
    const pointer = `/paths/${escapeToken(path)}`;
    const item = paths?.[path] as Json;
    const followed = refs.follow(item, pointer);
    if ('failed' in followed && (followed.failed === 'dangling' || followed.failed === 'not_object')) {
      document.findings.warn(pointer, `the path item cannot be read (${followed.failed}) and gives no tools`);
    } else if ('failed' in followed) out.refused.push(refusedPath(path, pointer, followed));
    else expandPathItem(document, path, item as JsonObject, { ...followed, own: pointer }, { refs, externals, out });
  }
  return out;
}

function expandPathItem(
  document: SpecDocument,
  path: string,
  item: JsonObject,
  target: { node: JsonObject; pointer: string; own: string },
  context: { refs: RefResolver; externals: ExternalRefs; out: ExpandedOperations },
): void {
  // Fields next to `$ref` override the target's (undefined in 3.0, merged in 3.1).
  const { $ref: _ref, ...own } = item;
  const node: JsonObject = target.node === item ? item : { ...target.node, ...own };
  const clean = withoutFragment(path, target.own, document);
  for (const method of readMethods(document, node)) {
    const at = Object.hasOwn(item, method.key) || target.node === item ? target.own : target.pointer;
    const pointer = `${at}/${method.at}`;
    const followed = context.refs.follow(method.node, pointer);
    const operation: RawOperation = {
      method: method.name,
      path: clean,
      node: 'failed' in followed ? {} : followed.node,
      pointer: 'failed' in followed ? pointer : followed.pointer,
      pathItem: node,
      pathItemPointer: target.pointer,
    };
    const operationId = stringAt(operation.node, 'operationId');
    if (operationId !== undefined && operationId !== '') operation.operationId = operationId;
    if ('failed' in followed) {
      context.out.refused.push(refusedReference(operation, followed));
      continue;
    }
    const external = document.mayReachOut ? findExternal(operation, context.externals) : undefined;
    if (external) context.out.refused.push(refusedExternal(operation, external.target, external.pointer));
    else context.out.operations.push(operation);
  }
}

function findExternal(
  { node, pointer, pathItem, pathItemPointer }: RawOperation,
  externals: ExternalRefs,
): ExternalRef | undefined {
  const found = externals.reachedFrom(node, pointer);
  if (found || pathItem.parameters === undefined) return found;
  return externals.reachedFrom(pathItem.parameters, `${pathItemPointer}/parameters`);
}

/** Methods of a path item; 3.2 adds `query` and `additionalOperations`. */
function readMethods(
  document: SpecDocument,
  item: JsonObject,
): { key: string; name: string; at: string; node: Json }[] {
  const modern = /^3\.(?:[2-9]|\d\d)/.test(document.version);
  const names = modern ? [...METHODS, 'query'] : METHODS;
  const found = Object.keys(item)
    .filter((key) => names.includes(key) && isJsonObject(item[key]))
    .map((key) => ({ key, name: key.toUpperCase(), at: key, node: item[key] as Json }));
  const additional = modern ? objectAt(item, 'additionalOperations') : undefined;
  for (const [name, node] of Object.entries(additional ?? {})) {
    if (!/^[A-Za-z][A-Za-z0-9-]*$/.test(name) || !isJsonObject(node)) continue;
    found.push({ key: 'additionalOperations', name, at: `additionalOperations/${escapeToken(name)}`, node });
  }
  return found;
}

/** Removes the fragment of a path that some documents use to distinguish operations; it is never sent. */
function withoutFragment(path: string, pointer: string, document: SpecDocument): string {
  const hash = path.indexOf('#');
  const clean = hash === -1 ? path : path.slice(0, hash);
  if (hash !== -1) document.findings.warn(pointer, `"${path.slice(hash)}" of the path is not sent`);
  return clean.startsWith('/') ? clean : `/${clean}`;
}

const BUNDLE = 'bundle the document into one file, for example with "redocly bundle"';

function refusedPath(path: string, pointer: string, failed: Extract<Followed, { failed: string }>): SpecRefusal {
  if (failed.failed === 'external') {
    const message = `REMOTE_REF_UNSUPPORTED: the operations of ${path} are in another document (${failed.ref.slice(0, 300)}); ${BUNDLE}`;
    return { pointer, message, code: 'REMOTE_REF_UNSUPPORTED' };
  }
  return { pointer, message: `the path item of ${path} cannot be read (${failed.failed})`, code: 'REF_CYCLE' };
}

function refusedReference(
  operation: RawOperation,
  failed: Extract<Followed, { failed: string }>,
): SpecRefusal & { operation: RawOperation } {
  if (failed.failed === 'external') return refusedExternal(operation, failed.ref, `${operation.pointer}/$ref`);
  const message = `${describeOperation(operation)} cannot be read (${failed.failed}: ${failed.ref.slice(0, 300)})`;
  return { pointer: operation.pointer, message, code: 'REF_CYCLE', operation };
}

function refusedExternal(
  operation: RawOperation,
  target: string,
  at: string,
): SpecRefusal & { operation: RawOperation } {
  const message = `REMOTE_REF_UNSUPPORTED: ${describeOperation(operation)} reaches another document (${target.slice(0, 300)} at ${at}); ${BUNDLE}`;
  return { pointer: operation.pointer, message, code: 'REMOTE_REF_UNSUPPORTED', operation };
}

function describeOperation(operation: RawOperation): string {
  const id = operation.operationId === undefined ? '' : ` (${operation.operationId})`;
  return `${operation.method} ${operation.path}${id}`;
}
