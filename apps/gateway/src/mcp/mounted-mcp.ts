import type { FastifyInstance } from 'fastify';
import type { Mounted } from '../gateway-server.js';
import { mountMcpDoor, type McpDoor } from './mcp-endpoint.js';
import type { McpEndpointDeps, McpDoorOptions } from './mcp-ports.js';

const POLL_MS = 20;

/** The MCP door on the gateway's HTTP server. Draining lets calls finish and then ends the open list streams. */
export class MountedMcp implements Mounted {
  private door: McpDoor | undefined;
  private inFlight = 0;

  constructor(
    private readonly deps: McpEndpointDeps,
    private readonly options: McpDoorOptions,
  ) {}

  async mount(fastify: FastifyInstance): Promise<void> {
    const deps: McpEndpointDeps = {
      ...this.deps,
      executeCall: async (request) => {
        this.inFlight += 1;
        try {
          return await this.deps.executeCall(request);
        } finally {
          this.inFlight -= 1;
        }
      },
    };
    this.door = await mountMcpDoor(fastify, deps, this.options);
  }

  async drain(): Promise<void> {
    while (this.inFlight > 0) await this.deps.clock.sleep(POLL_MS);
    await this.door?.close();
  }
}
