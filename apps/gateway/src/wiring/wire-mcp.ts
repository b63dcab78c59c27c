import { isDevelopment } from '@toolfleet/contracts';
import { SIZES, SUBJECTS } from '@toolfleet/contracts/subjects';
import { VERSION, type ServiceHost } from '@toolfleet/service';
import { authenticateRequest, readRawCredential } from '@toolfleet/access';
import {
  CallCancellations,
  ElicitationRelay,
  QueueTasks,
  RedisSessionSubscriptions,
  ResourceSubscriptions,
  sealedStates,
  SessionStreams,
  taskAnswers,
} from '@toolfleet/mcp';
import type { GatewayConfig } from '../gateway.config.js';
import type { EventStreams } from '../server/event-streams.js';
import type { Brokers } from './brokers.js';
import { CATALOG_TTL_MS } from './engine-settings.js';
import type { Auth } from './wire-auth.js';
import type { Calls } from './wire-calls.js';
import type { GatewayCatalog } from './wire-catalog.js';
import type { Engine } from './wire-engine.js';
import { McpEndpoint } from '../mcp/mcp-endpoint.js';

/** Number of tools above which `MCP_SURFACE=auto` lists `search_tools`: the definitions of more fill the context of a model. */
const SEARCH_ABOVE = 500;
/** Larger results become handles, unless `max_result_kb` of the call permits more. */
const INLINE_BYTES = 16 * 1_024;

interface McpWiringDeps {
  brokers: Brokers;
  auth: Auth;
  catalog: GatewayCatalog;
  engine: Engine;
  calls: Calls;
  streams: EventStreams;
  hasSignIn: boolean;
}

/** Builds the MCP endpoint of this gateway. */
export function wireMcp(settings: GatewayConfig, host: ServiceHost, deps: McpWiringDeps): McpEndpoint {
  const { clock, logger } = host;
  const { auth, catalog, engine, calls } = deps;
  const { list, search, toolsets } = catalog;
  const { nats, redis } = deps.brokers;
  const onFault = (error: unknown) => logger.error({ error }, 'the MCP endpoint failed');
  const subscriptions = new ResourceSubscriptions(nats, clock, onFault);
  return new McpEndpoint(
    {
      authenticate: async (rawHeaders) => {
        // No cookies: clients of MCP send keys and tokens.
        const principal = await authenticateRequest(auth.authenticateMcp, rawHeaders, readRawCredential);
        await auth.limits.count(principal);
        return principal;
      },
      countCalls: (principal, count) => auth.limits.countBatch(principal, count),
      selectToolset: (principal, requested) => toolsets.select(principal, requested),
      toolsetInstructions: async ({ tenantId, toolset }) =>
        toolset && (await toolsets.view(tenantId, toolset)).served.spec.instructions,
      listTools: async (principal, forApps) => (await list.all(principal, 'public', forApps)).tools,
      listFeatures: async (principal) => (await catalog.features.all(principal)).tools,
      executeCall: engine.executeCall,
      searchTools: (...wanted) => search.rank(...wanted),
      onCatalogChanged: (changed) => catalog.changes.subscribe(changed),
      tasks: new QueueTasks(
        calls.toolCalls,
        calls.asyncCalls,
        taskAnswers(nats, catalog.definitions, clock),
        settings.CALL_RESULT_TTL_SECONDS,
        INLINE_BYTES,
      ),
      endCall: (callId) => nats.connected && nats.publish(SUBJECTS.execCancel, { call_id: callId }),
      elicitation: new ElicitationRelay(nats),
      watchGrant: (principal, source) => engine.grants.watch(principal, source),
      cancellations: new CallCancellations(clock, nats),
      subscriptions,
      sessions: new SessionStreams(new RedisSessionSubscriptions(redis, clock), subscriptions, nats, clock, onFault),
      projects: auth.projects,
      readResult: (caller, handle, part) => calls.results.read(caller, handle, part),
      requestState: sealedStates(auth.tokens, clock),
      streams: deps.streams,
      refusalOf: (principal) => auth.status.findRefusal(principal),
      metrics: { durations: host.metrics.mcpServerDuration, toolLabel: (tool) => engine.toolLabels.of(tool) },
      clock,
      onFault,
    },
    {
      version: VERSION,
      publicUrl: settings.GATEWAY_PUBLIC_URL,
      development: isDevelopment(settings.ENVIRONMENT),
      issuer: settings.JWT_ISSUER,
      signIn: deps.hasSignIn,
      allowedHosts: settings.MCP_ALLOWED_HOSTS,
      allowedOrigins: settings.MCP_ALLOWED_ORIGINS,
      maxCallMs: settings.GATEWAY_CALL_TIMEOUT_MS,
      listTtlMs: CATALOG_TTL_MS,
      surface: settings.MCP_SURFACE,
      searchAbove: SEARCH_ABOVE,
      inlineBytes: INLINE_BYTES,
      maxBodyBytes: SIZES.request,
    },
  );
}
