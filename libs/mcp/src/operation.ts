import type { IncomingMessage } from 'node:http';
import { isJsonObject, type Json } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import {
  ATTR,
  beginTrace,
  describeMessage,
  EXECUTE_TOOL,
  failSpan,
  isServerError,
  knownRevision,
  LABEL,
  messageAttributes,
  TOOL_ERROR,
  type MessageFacts,
  type Metrics,
  type RecordedSpan,
  type SpanFailure,
} from '@toolfleet/telemetry';
import { originalOf } from '@toolfleet/catalog';

/** Where the durations of operations go. */
export interface OperationMetrics {
  durations: Metrics['mcpServerDuration'];
  /** The bounded label of a tool that the caller may see; undefined for any other name. */
  toolLabel(tool: RegisteredTool | undefined): string;
}

interface McpOperationDeps {
  clock: Clock;
  metrics: OperationMetrics;
}

/** A request or notification as JSON-RPC defines it. */
type Message = { method: string; id?: Json; params?: Json };
type OperationLabels = Partial<Record<Parameters<Metrics['mcpServerDuration']['labels']>[0] & string, string>>;

/** Without sessions, and without a header that could name one. */
const STATELESS = '2026-07-28';

/**
 * One request or notification of a client, as the OpenTelemetry conventions of MCP see it: a server span `{method} {tool}` and an
 * observation of `mcp.server.operation.duration`. The parts of the endpoint that answer it report their facts.
 */
export class Operation {
  /** The tool of a `tools/call` as the caller sees it, set once the tool is known to be visible to the caller. */
  tool: RegisteredTool | undefined;
  private readonly facts: MessageFacts;
  private statusCode: string | undefined;
  private failure: SpanFailure | undefined;
  private isAnswered = false;

  private constructor(
    private readonly message: Message,
    private readonly request: IncomingMessage,
    private readonly span: RecordedSpan | undefined,
  ) {
    this.facts = describeMessage(message);
  }

  /**
   * Serves the body of a POST in its trace: from `_meta`, else from the HTTP request, else a new one. A body that is
   * neither a request nor a notification (a batch, the answer to a question, anything invalid) is not an MCP operation: only the HTTP
   * request is traced.
   */
  static async serve(
    deps: McpOperationDeps,
    request: IncomingMessage,
    body: Json | undefined,
    work: (operation: Operation | undefined) => Promise<void>,
  ): Promise<void> {
    const { headers } = request;
    const carrier = { get: (name: string) => toText(headers[name]) };
    if (!isMessage(body)) return beginTrace('mcp request', carrier, () => work(undefined));
    const { params } = body;
    const meta = isJsonObject(params) && isJsonObject(params['_meta']) ? params['_meta'] : undefined;
    const inMessage = meta && { get: (name: string) => toText(meta[name]) };
    const startedAt = deps.clock.monotonic();
    const serve = async (span: RecordedSpan | undefined): Promise<void> => {
      const operation = new Operation(body, request, span);
      try {
        await work(operation);
      } finally {
        operation.end(deps.metrics, (deps.clock.monotonic() - startedAt) / 1_000);
      }
    };
    return beginTrace('mcp request', carrier, serve, inMessage);
  }

  /** Name of the called tool as the client sent it; undefined for other methods. */
  get toolName(): string | undefined {
    return this.facts.tool;
  }

  /** Reports the response: a JSON-RPC error, or a result (`isError` for a failed tool). */
  answered(response: { error?: { code: number; message?: string }; result?: object }): void {
    this.isAnswered = true;
    const { error, result } = response;
    if (error) {
      this.statusCode = String(error.code);
      if (isServerError(error.code)) this.failure = { type: this.statusCode, message: error.message };
    } else if (result && 'isError' in result && result.isError === true) {
      this.failure = { type: TOOL_ERROR };
    }
  }

  /** Reports a response of the SDK from before it has a server for the request: it refuses headers and envelopes. */
  async refused(response: Response): Promise<void> {
    if (this.isAnswered || response.status < 400) return;
    if (!response.headers.get('content-type')?.startsWith('application/json')) return;
    const body = (await response.clone().json()) as Json;
    const error = isJsonObject(body) ? body['error'] : undefined;
    if (isJsonObject(error) && typeof error['code'] === 'number') {
      this.answered({ error: { code: error['code'], message: toText(error['message']) } });
    }
  }

  /** Reports that there was no response to send, or that it was not JSON-RPC. Does nothing after `answered`. */
  ended(reason: string): void {
    if (!this.isAnswered) this.failure ??= { type: reason };
  }

  /** From the header; from the parameters when a client of 2025 begins a session. */
  private readRevision(): string | undefined {
    const { method, params } = this.message;
    const asked = method === 'initialize' && isJsonObject(params) ? params['protocolVersion'] : undefined;
    return knownRevision(this.request.headers['mcp-protocol-version'] ?? asked);
  }

  private end(metrics: OperationMetrics, seconds: number): void {
    const { facts, span, statusCode, failure } = this;
    const tool = this.tool && originalOf(this.tool);
    const isCall = facts.method === 'tools/call';
    const version = this.readRevision();
    const labels: OperationLabels = {
      [LABEL.mcpMethod]: facts.method,
      [LABEL.networkTransport]: 'tcp',
      [LABEL.networkProtocolName]: 'http',
    };
    if (isCall) {
      labels[LABEL.operationName] = EXECUTE_TOOL;
      labels[LABEL.toolName] = metrics.toolLabel(tool);
    }
    if (version !== undefined) labels[LABEL.mcpProtocolVersion] = version;
    if (statusCode !== undefined) labels[LABEL.rpcStatusCode] = statusCode;
    if (failure) labels[LABEL.errorType] = failure.type;
    metrics.durations.observe(labels, seconds);
    if (!span) return;
    span.updateName(tool ? `${facts.method} ${tool.name}` : facts.method);
    span.setAttributes(messageAttributes(this.message, facts));
    span.setAttributes({
      [ATTR.networkTransport]: 'tcp',
      [ATTR.networkProtocolName]: 'http',
      [ATTR.networkProtocolVersion]: this.request.httpVersion,
    });
    const session = toText(this.request.headers['mcp-session-id']);
    if (tool) span.setAttribute(ATTR.toolName, tool.name);
    if (version !== undefined) span.setAttribute(ATTR.mcpProtocolVersion, version);
    if (session !== undefined && version !== STATELESS) span.setAttribute(ATTR.mcpSessionId, session);
    if (statusCode !== undefined) span.setAttribute(ATTR.rpcStatusCode, statusCode);
    if (failure) failSpan(span, failure);
  }
}

function isMessage(body: Json | undefined): body is Message {
  return isJsonObject(body) && typeof body['method'] === 'string';
}

const toText = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
