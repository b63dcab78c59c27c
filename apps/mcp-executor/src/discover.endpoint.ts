import { Controller } from '@nestjs/common';
import type { DiscoverMessage, DiscoverReply } from '@toolfleet/contracts/execution';
import { SUBJECTS } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointContext } from '@toolfleet/transport';
import { McpExecutor } from './mcp-executor.js';

/** `exec.mcp.discover`: the tools of a server. Only this process dials MCP servers. */
@Controller()
export class DiscoverEndpoint {
  constructor(private readonly executor: McpExecutor) {}

  @Endpoint(SUBJECTS.execMcpDiscover)
  discover(message: DiscoverMessage, context: EndpointContext): Promise<DiscoverReply> {
    return this.executor.discover(message, { timeoutMs: context.timeLeftMs, signal: context.signal });
  }
}
