import { ProtocolError } from '@modelcontextprotocol/server';
import { McpEndpoint } from '../../apps/gateway/dist/mcp/mcp-endpoint.js';
import { supportsTask } from '../../libs/mcp/dist/tasks.js';
import { contentFixtures } from './fixtures/content-fixtures.mjs';
import { inputFixtures } from './fixtures/input-fixtures.mjs';
import { LegacySessions } from './fixtures/legacy-sessions.mjs';
import { MemoryTasks } from './fixtures/memory-tasks.mjs';
import { installSurface } from './fixtures/surface-fixtures.mjs';
import { taskFixtures } from './fixtures/task-fixtures.mjs';

const CAPABILITIES = {
  logging: {},
  completions: {},
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
};

/**
 * The gateway's MCP endpoint with everything the official conformance suite expects of a server: fixture tools in place of a
 * fleet, prompts and resources, and 2025 sessions in memory. All requests go through the SDK: the fast path runs tools through
 * the engine without the fixtures.
 */
export class ConformanceEndpoint extends McpEndpoint {
  /** @param deps `McpEndpointDeps` without what the fixtures replace */
  constructor(deps, options) {
    const tasks = new MemoryTasks(deps.clock);
    const fixtures = [];
    const definitions = [];
    super(
      {
        ...deps,
        tasks,
        listTools: async () => definitions,
        executeCall: async () => {
          throw new Error('the fixtures need no engine');
        },
      },
      options,
    );
    fixtures.push(
      ...contentFixtures(deps.clock, this.handler.notify),
      ...inputFixtures(),
      ...taskFixtures(deps.clock, tasks),
    );
    definitions.push(...fixtures.map(({ definition }) => definition));
    this.fixtures = new Map(fixtures.map((fixture) => [fixture.definition.name, fixture]));
    this.sessions = new LegacySessions((request) => this.createServer(request));
  }

  async close() {
    await this.sessions.close();
    await super.close();
  }

  async createServer(request) {
    const server = await super.createServer(request);
    server.server.registerCapabilities(CAPABILITIES);
    server.server.setRequestHandler('tools/call', ({ params }, context) => this.callFixture(params, context));
    installSurface(server, request.era);
    return server;
  }

  async respond(request, options) {
    return (await this.sessions.serve(request, options)) ?? super.respond(request, options);
  }

  async answerFast() {
    return undefined;
  }

  /** A fixture that throws has failed as a tool; protocol errors are rethrown for the client. */
  async callFixture({ name, arguments: args = {} }, context) {
    const { definition, call } = this.fixtures.get(name);
    const takesTask = supportsTask(context, definition);
    try {
      return await call(args, context, takesTask);
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      return {
        content: [{ type: 'text', text: error instanceof Error ? error.message : String(error) }],
        isError: true,
      };
    }
  }
}
