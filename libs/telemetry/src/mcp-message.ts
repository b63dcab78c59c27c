import { ATTR, EXECUTE_TOOL, knownMethod } from './conventions.js';

/** The fields of a JSON-RPC request or notification that telemetry reads. */
interface TracedMessage {
  readonly method: string;
  readonly id?: unknown;
  readonly params?: unknown;
}

/** What spans and metrics say about a message, at its sender and its receiver. */
export interface MessageFacts {
  /** From a closed list (`knownMethod`). */
  readonly method: string;
  /** The tool of a `tools/call`, as the sender wrote it: as a label or in a span name only once it is known to exist. */
  readonly tool: string | undefined;
}

/** Cheap, because it is called for every message, recorded or not. */
export function describeMessage({ method, params }: TracedMessage): MessageFacts {
  const tool = method === 'tools/call' ? readText(params, 'name') : undefined;
  return { method: knownMethod(method), tool };
}

/** Attributes of the span of a message. The receiver adds the name of the tool once it is known to exist. */
export function messageAttributes(message: TracedMessage, { method }: MessageFacts): Record<string, string> {
  const attributes: Record<string, string> = { [ATTR.mcpMethod]: method };
  const { id, params } = message;
  if (typeof id === 'string' || typeof id === 'number') attributes[ATTR.jsonrpcRequestId] = String(id);
  if (method === 'tools/call') attributes[ATTR.operationName] = EXECUTE_TOOL;
  const uri = method.startsWith('resources/') ? readText(params, 'uri') : undefined;
  if (uri !== undefined) attributes[ATTR.mcpResourceUri] = uri;
  return attributes;
}

function readText(params: unknown, name: string): string | undefined {
  const value: unknown =
    typeof params === 'object' && params !== null ? (params as Record<string, unknown>)[name] : undefined;
  return typeof value === 'string' ? value : undefined;
}
