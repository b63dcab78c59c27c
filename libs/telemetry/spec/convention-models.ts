/** The model files that src/conventions.ts was made from, and the types of their attributes: for the checks. */
import type { AttributeKey } from '../src/conventions.js';

/** Sources of the table below. */
export const CONVENTIONS = {
  /** GenAI and MCP: https://github.com/open-telemetry/semantic-conventions-genai */
  schemaUrl: 'https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev',
  /** Last commit that changed the file, among those before this table was made. */
  files: {
    'model/gen-ai/metrics.yaml': '004902b8cb70aa5ae6ca4ae07132b7daabcd3e10',
    'model/gen-ai/registry.yaml': '002c8a6ea1c8a42b14a4527db83b3cabcded610a',
    'model/gen-ai/spans.yaml': '004902b8cb70aa5ae6ca4ae07132b7daabcd3e10',
    'model/mcp/common.yaml': '0e5e6a8d59d38c9c19556a5164a83cc11a7d53ff',
    'model/mcp/metrics.yaml': '14567fad6858f82588325657c4bb262fafc885bd',
    'model/mcp/registry.yaml': '4172e394d28f2d26ec4a4514a45f153580c68670',
    'model/mcp/spans.yaml': '5c50d346f1c9e8f745889f7777a412991564b334',
  },
  /** Attributes of other areas (error, jsonrpc, network, rpc, server): https://github.com/open-telemetry/semantic-conventions */
  core: 'v1.44.0',
} as const;

/** Types as the models name them; values of an `enum` are its members or custom ones. */
type AttributeType = 'string' | 'int' | 'any' | 'enum';

export const ATTRIBUTE_TYPES: Readonly<Record<AttributeKey, AttributeType>> = {
  agentId: 'string',
  conversationId: 'string',
  operationName: 'enum',
  toolName: 'string',
  toolType: 'string',
  toolDescription: 'string',
  toolCallId: 'string',
  toolCallArguments: 'any',
  toolCallResult: 'any',
  mcpMethod: 'enum',
  mcpProtocolVersion: 'string',
  mcpResourceUri: 'string',
  mcpSessionId: 'string',
  errorType: 'enum',
  jsonrpcRequestId: 'string',
  networkProtocolName: 'string',
  networkProtocolVersion: 'string',
  networkTransport: 'enum',
  rpcStatusCode: 'string',
  serverAddress: 'string',
  serverPort: 'int',
};
