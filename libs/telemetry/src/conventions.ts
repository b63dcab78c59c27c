/**
 * The OpenTelemetry conventions that this fleet's spans and metrics follow: names, types and requirement levels. The
 * conventions are in development and have no release yet, so each model file is pinned to a commit. `npm run check:conventions` compares
 * this table with a checkout; `docs/operations/traces.md` lists the sent names.
 */
import { MCP_REVISIONS } from '@toolfleet/contracts/tool-definition';

/** Attribute names. */
export const ATTR = {
  agentId: 'gen_ai.agent.id',
  conversationId: 'gen_ai.conversation.id',
  operationName: 'gen_ai.operation.name',
  toolName: 'gen_ai.tool.name',
  toolType: 'gen_ai.tool.type',
  toolDescription: 'gen_ai.tool.description',
  toolCallId: 'gen_ai.tool.call.id',
  toolCallArguments: 'gen_ai.tool.call.arguments',
  toolCallResult: 'gen_ai.tool.call.result',
  mcpMethod: 'mcp.method.name',
  mcpProtocolVersion: 'mcp.protocol.version',
  mcpResourceUri: 'mcp.resource.uri',
  mcpSessionId: 'mcp.session.id',
  errorType: 'error.type',
  jsonrpcRequestId: 'jsonrpc.request.id',
  networkProtocolName: 'network.protocol.name',
  networkProtocolVersion: 'network.protocol.version',
  networkTransport: 'network.transport',
  rpcStatusCode: 'rpc.response.status_code',
  serverAddress: 'server.address',
  serverPort: 'server.port',
} as const;

/** An attribute of the table. */
export type AttributeKey = keyof typeof ATTR;

/**
 * Requirement levels (https://opentelemetry.io/docs/specs/semconv/general/attribute-requirement-level/). `additional`: the registry has the
 * attribute, the definition of the signal does not list it.
 */
type RequirementLevel = 'required' | 'conditionally_required' | 'recommended' | 'opt_in' | 'additional';

/** A span or a metric of the conventions. */
export interface Signal {
  readonly kind: 'internal' | 'client' | 'server' | 'histogram';
  readonly attributes: Readonly<Partial<Record<AttributeKey, RequirementLevel>>>;
  /** Upper bounds in seconds that the conventions recommend for a histogram. */
  readonly buckets?: readonly number[];
}

const MCP_OPERATION = {
  toolName: 'conditionally_required',
  operationName: 'recommended',
  errorType: 'conditionally_required',
  mcpMethod: 'required',
  mcpProtocolVersion: 'recommended',
  rpcStatusCode: 'conditionally_required',
  networkTransport: 'recommended',
  networkProtocolName: 'recommended',
} as const;
const MCP_SPAN = {
  ...MCP_OPERATION,
  rpcStatusCode: 'recommended',
  networkProtocolVersion: 'recommended',
  mcpSessionId: 'recommended',
  mcpResourceUri: 'conditionally_required',
  jsonrpcRequestId: 'conditionally_required',
} as const;
const MCP_SERVER_ADDRESS = { serverAddress: 'recommended', serverPort: 'recommended' } as const;
const GEN_AI_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const MCP_BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** The signals that are sent, by their id in the models. Attributes that are not listed are not sent. */
export const SIGNALS = {
  'gen_ai.execute_tool.internal': {
    kind: 'internal',
    attributes: {
      operationName: 'required',
      toolName: 'required',
      toolType: 'recommended',
      toolCallId: 'recommended',
      toolDescription: 'recommended',
      toolCallArguments: 'opt_in',
      toolCallResult: 'opt_in',
      errorType: 'conditionally_required',
      agentId: 'additional',
      conversationId: 'additional',
    },
  },
  'mcp.server': { kind: 'server', attributes: MCP_SPAN },
  'mcp.client': { kind: 'client', attributes: { ...MCP_SPAN, ...MCP_SERVER_ADDRESS } },
  'gen_ai.execute_tool.duration': {
    kind: 'histogram',
    attributes: { toolName: 'required', toolType: 'recommended', errorType: 'conditionally_required' },
    buckets: GEN_AI_BUCKETS,
  },
  'mcp.server.operation.duration': { kind: 'histogram', attributes: MCP_OPERATION, buckets: MCP_BUCKETS },
  'mcp.client.operation.duration': {
    kind: 'histogram',
    attributes: { ...MCP_OPERATION, ...MCP_SERVER_ADDRESS },
    buckets: MCP_BUCKETS,
  },
  'mcp.client.session.duration': {
    kind: 'histogram',
    attributes: { mcpProtocolVersion: 'recommended', networkProtocolName: 'recommended', ...MCP_SERVER_ADDRESS },
    buckets: MCP_BUCKETS,
  },
} as const satisfies Record<string, Signal>;

/** Value of `gen_ai.operation.name` of everything that runs a tool. */
export const EXECUTE_TOOL = 'execute_tool';
/** Value of `error.type` for a result that reports the failure of its tool: not a protocol error. */
export const TOOL_ERROR = 'tool_error';
/** Value of `mcp.method.name` for a method that MCP does not define: its name is the sender's choice. */
const OTHER_METHOD = '_OTHER';

const METHODS = new Set([
  'initialize',
  'ping',
  'server/discover',
  'subscriptions/listen',
  'tools/list',
  'tools/call',
  'tasks/get',
  'tasks/cancel',
  'tasks/update',
  'resources/list',
  'resources/read',
  'resources/templates/list',
  'resources/subscribe',
  'resources/unsubscribe',
  'resources/directory/read',
  'skills/list',
  'skills/get',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'logging/setLevel',
  'sampling/createMessage',
  'roots/list',
  'elicitation/create',
  'notifications/initialized',
  'notifications/cancelled',
  'notifications/progress',
  'notifications/message',
  'notifications/roots/list_changed',
  'notifications/tools/list_changed',
  'notifications/subscriptions/acknowledged',
]);

/** The method as it may appear in attributes, labels and span names: one of MCP and its tasks extension, or `_OTHER`. */
export const knownMethod = (method: string): string => (METHODS.has(method) ? method : OTHER_METHOD);

const REVISIONS = new Set<string>(MCP_REVISIONS);

/** The protocol revision if it is a known one: peers can send anything. */
export const knownRevision = (version: unknown): string | undefined =>
  typeof version === 'string' && REVISIONS.has(version) ? version : undefined;

/** JSON-RPC codes for invalid requests: the server itself did not fail. */
const CALLER_CODES = new Set([-32_700, -32_600, -32_601, -32_602, -32_002]);

/** Whether a response with this code counts as a failure of the server that sent it. */
export const isServerError = (code: number): boolean => !CALLER_CODES.has(code);

/** An attribute name as a Prometheus label. */
export type PrometheusName<Name extends string> = Name extends `${infer Head}.${infer Tail}`
  ? `${Head}_${PrometheusName<Tail>}`
  : Name;

/** The labels of attributes (https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/). */
export const LABEL = Object.fromEntries(
  Object.entries(ATTR).map(([key, name]) => [key, name.replaceAll('.', '_')]),
) as { readonly [K in AttributeKey]: PrometheusName<(typeof ATTR)[K]> };
