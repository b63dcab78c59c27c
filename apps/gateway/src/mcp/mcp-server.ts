import { McpServer, type ServerCapabilities } from '@modelcontextprotocol/server';
import type { JsonObject } from '@toolfleet/contracts';

/**
 * The SDK's server with our own list behind it. `McpServer` and not the bare `Server`, because only for it the SDK checks
 * `Mcp-Param-*` headers against the schema; none of its own tool handling is used.
 */
export class GatewayMcpServer extends McpServer {
  constructor(
    version: string,
    capabilities: ServerCapabilities,
    instructions: string,
    private readonly schemaOf: (tool: string) => JsonObject | undefined,
  ) {
    super({ name: 'toolfleet', version }, { capabilities, instructions, inputRequired: { legacyShim: true } });
  }

  override toolInputSchemaJson(name: string): Record<string, unknown> | undefined {
    return this.schemaOf(name);
  }
}
