import {
  McpServer,
  type McpRequestContext,
  type ServerCapabilities,
  type Transport,
} from '@modelcontextprotocol/server';
import { SKILLS_EXTENSION_ID } from '@modelcontextprotocol/server/ext/skills';
import type { JsonObject } from '@toolfleet/contracts';
import { TASKS_EXTENSION } from './client-features.js';
import { offersSubscriptions } from './listen.js';
import type { McpServerDeps } from './server-deps.js';
import type { Operation } from './operation.js';
import { installPrompts } from './prompts.js';
import { readPage } from './rendered-catalog.js';
import { RequestContext } from './request-context.js';
import { installResources, installSubscriptions } from './resources.js';
import { installSkills } from './skills.js';
import { openSurface, type Surface } from './surface.js';
import { installTasks } from './tasks.js';
import { callTool } from './tool-call.js';

/**
 * The SDK's server over the fleet's own tool list. It extends `McpServer` instead of the low-level `Server`, because only
 * there the SDK checks `Mcp-Param-*` headers against the schema; the SDK's own tool registry is not used.
 */
export class FleetMcpServer extends McpServer {
  constructor(
    version: string,
    capabilities: ServerCapabilities,
    private readonly surface: Surface,
    ofToolset?: string,
    private readonly operation?: Operation,
  ) {
    const instructions = ofToolset === undefined ? surface.instructions : `${ofToolset}\n\n${surface.instructions}`;
    const options = { capabilities, instructions, inputRequired: { legacyShim: true } };
    super({ name: 'toolfleet', version }, options);
  }

  /** Shows the response to the operation, whether a handler or the SDK itself makes it. */
  override connect(transport: Transport): Promise<void> {
    const { operation } = this;
    if (operation) {
      const send = transport.send.bind(transport);
      transport.send = (message, options) => {
        if ('error' in message || 'result' in message) operation.answered(message);
        return send(message, options);
      };
    }
    return super.connect(transport);
  }

  override toolInputSchemaJson(name: string): Record<string, unknown> | undefined {
    return this.surface.catalog.tools.get(name)?.input_schema;
  }
}

/** A server for one request. Its lists were rendered before, so it is cheap to build. */
export async function createMcpServer(deps: McpServerDeps, request: McpRequestContext): Promise<FleetMcpServer> {
  const { principal, exchange, features, operation } = RequestContext.of(request.authInfo);
  const isModern = request.era === 'modern';
  const hasStream = isModern || deps.sessions !== undefined;
  const subscribes = hasStream && (await offersSubscriptions(deps, principal));
  const surface = await openSurface(deps, principal, features);
  const { catalog } = surface;
  const tasks = isModern ? deps.tasks : undefined;
  if (operation?.toolName !== undefined) operation.tool = catalog.tools.get(operation.toolName);
  const server = new FleetMcpServer(
    deps.options.version,
    {
      tools: { listChanged: hasStream },
      resources: deps.listFeatures ? { listChanged: hasStream, subscribe: subscribes } : deps.readResult && {},
      prompts: deps.listFeatures && { listChanged: hasStream },
      completions: deps.listFeatures && {},
      extensions: {
        ...(tasks && { [TASKS_EXTENSION]: {} }),
        ...(deps.listFeatures && { [SKILLS_EXTENSION_ID]: { directoryRead: true } }),
      },
    },
    surface,
    await deps.toolsetInstructions(principal),
    operation,
  );

  server.server.setRequestHandler('tools/list', ({ params }) => {
    const { tools, nextCursor } = readPage(catalog, params?.cursor);
    // Callers see different tools, so a shared cache must not serve one caller the list of another.
    return { tools, nextCursor, ttlMs: deps.options.listTtlMs, cacheScope: 'private' as const };
  });

  const toolCall = {
    deps,
    principal,
    exchange,
    server,
    catalog: surface.mode === 'search' ? undefined : catalog,
    resultReading: surface.resultReading,
    isModern,
    features,
  };
  server.server.setRequestHandler('tools/call', async ({ params }, context) => {
    const routed = await surface.route({ name: params.name, arguments: (params.arguments ?? {}) as JsonObject });
    return 'result' in routed ? routed.result : callTool(toolCall, routed.call, context);
  });

  if (deps.readResult || deps.listFeatures) installResources(server.server, toolCall);
  if (!isModern && subscribes) installSubscriptions(server.server, toolCall, deps.sessions!);
  if (deps.listFeatures) {
    installPrompts(server.server, toolCall);
    installSkills(server.server, toolCall);
  }
  if (tasks) installTasks(server.server, tasks, principal, surface.resultReading);
  return server;
}
