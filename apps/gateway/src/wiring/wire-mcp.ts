import { isDevelopment } from '@toolfleet/contracts';
import { SIZES, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { ExecuteCall } from '@toolfleet/engine';
import { VERSION, type ServiceHost } from '@toolfleet/service';
import type { NatsClient } from '@toolfleet/transport';
import {
  type Authenticate,
  authenticateRequest,
  type Projects,
  type CredentialStatus,
  readRawCredential,
  type SignedTokens,
  type RequestLimits,
} from '@toolfleet/access';
import type { AsyncCalls, ResultReader } from '@toolfleet/results';
import type { ToolCalls } from '../calls/tool-calls.js';
import type { CatalogChanges, ToolList, ToolSearch, Toolsets } from '@toolfleet/catalog';
import type { NatsUserGrants, ToolLabels } from '@toolfleet/engine-adapters';
import {
  CallCancellations,
  ElicitationRelay,
  QueueTasks,
  RedisSessionSubscriptions,
  ResourceSubscriptions,
  sealedStates,
  SessionStreams,
  taskAnswers,
  type DefinitionsByName,
} from '@toolfleet/mcp';
import type { GatewayConfig } from '../gateway.config.js';
import type { EventStreams } from '../server/event-streams.js';
import type { Brokers } from './brokers.js';
import { CATALOG_TTL_MS } from './engine-settings.js';
import { McpEndpoint } from '../mcp/mcp-endpoint.js';

/** Number of tools above which `MCP_SURFACE=auto` lists `search_tools`: the definitions of more fill the context of a model. */
const SEARCH_ABOVE = 500;
/** Larger results become handles, unless `max_result_kb` of the call permits more. */
const INLINE_BYTES = 16 * 1_024;

/** The services of the gateway that the MCP endpoint works on. */
interface McpWiringDeps {
  authenticateMcp: Authenticate;
  tokens: SignedTokens;
  limits: RequestLimits;
  list: ToolList;
  /** Prompts and resources of MCP servers. */
  features: ToolList;
  search: ToolSearch;
  changes: CatalogChanges;
  toolsets: Toolsets;
  executeCall: ExecuteCall;
  grants: Pick<NatsUserGrants, 'watch'>;
  toolLabels: ToolLabels;
  calls: ToolCalls;
  asyncCalls: AsyncCalls;
  nats: NatsClient;
  redis: Brokers['redis'];
  streams: EventStreams;
  status: CredentialStatus;
  projects: Projects;
  results: ResultReader;
  definitions: DefinitionsByName;
}

/** Builds the MCP endpoint of this gateway. */
export function wireMcp(
  settings: GatewayConfig,
  host: ServiceHost,
  deps: McpWiringDeps,
  hasSignIn: boolean,
): McpEndpoint {
  const { clock, logger } = host;
  const { authenticateMcp, tokens, list, search } = deps;
  const onFault = (error: unknown) => logger.error({ error }, 'the MCP endpoint failed');
  const subscriptions = new ResourceSubscriptions(deps.nats, clock, onFault);
  return new McpEndpoint(
    {
      authenticate: async (rawHeaders) => {
        // No cookies: clients of MCP send keys and tokens.
        const principal = await authenticateRequest(authenticateMcp, rawHeaders, readRawCredential);
        await deps.limits.count(principal);
        return principal;
      },
      countCalls: (principal, calls) => deps.limits.countBatch(principal, calls),
      selectToolset: (principal, requested) => deps.toolsets.select(principal, requested),
      toolsetInstructions: async ({ tenantId, toolset }) =>
        toolset && (await deps.toolsets.view(tenantId, toolset)).served.spec.instructions,
      listTools: async (principal, forApps) => (await list.all(principal, 'public', forApps)).tools,
      listFeatures: async (principal) => (await deps.features.all(principal)).tools,
      executeCall: deps.executeCall,
      searchTools: async (principal, query, limit, isWanted) =>
        (await search.rank(principal, query, limit, isWanted)).map(({ tool }) => tool),
      onCatalogChanged: (changed) => deps.changes.subscribe(changed),
      tasks: new QueueTasks(
        deps.calls,
        deps.asyncCalls,
        taskAnswers(deps.nats, deps.definitions, clock),
        settings.CALL_RESULT_TTL_SECONDS,
        INLINE_BYTES,
      ),
      endCall: (callId) => deps.nats.connected && deps.nats.publish(SUBJECTS.execCancel, { call_id: callId }),
      elicitation: new ElicitationRelay(deps.nats),
      watchGrant: (principal, source) => deps.grants.watch(principal, source),
      cancellations: new CallCancellations(clock, deps.nats),
      subscriptions,
      sessions: new SessionStreams(
        new RedisSessionSubscriptions(deps.redis, clock),
        subscriptions,
        deps.nats,
        clock,
        onFault,
      ),
      projects: deps.projects,
      readResult: (caller, handle, part) => deps.results.read(caller, handle, part),
      requestState: sealedStates(tokens, clock),
      streams: deps.streams,
      refusalOf: (principal) => deps.status.findRefusal(principal),
      metrics: { durations: host.metrics.mcpServerDuration, toolLabel: (tool) => deps.toolLabels.of(tool) },
      clock,
      onFault,
    },
    {
      version: VERSION,
      publicUrl: settings.GATEWAY_PUBLIC_URL,
      development: isDevelopment(settings.ENVIRONMENT),
      issuer: settings.JWT_ISSUER,
      signIn: hasSignIn,
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
