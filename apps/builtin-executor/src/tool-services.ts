import {
  DEFAULT_WORKSPACE_LIMITS,
  HttpSearchProvider,
  LocalSearchProvider,
  LocalWorkspaceStore,
  OpenAiChatModel,
  PageReader,
  providerUrl,
  Robots,
  S3WorkspaceStore,
  Workspaces,
  type AgentServices,
  type BoundedWork,
  type SearchProvider,
  type ToolServices,
  type WorkspaceStore,
} from '@toolfleet/builtin-tools';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import { egressFetch, type EgressClient } from '@toolfleet/egress';
import type { FleetFile } from '@toolfleet/fleet-file';
import { s3Login } from '@toolfleet/service';
import type { ExecutorDeps } from '@toolfleet/service/executor';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';
import { NatsSpending, NatsToolCaller } from './gateway-client.js';

/** Dependencies of the services. */
interface ToolServiceDeps {
  settings: BuiltinExecutorConfig;
  bounded: BoundedWork;
  executor: ExecutorDeps;
  /** Section `sub_agent` of the configuration file. */
  subAgent: FleetFile['sub_agent'];
}

/** Iterations and concurrent tasks of sub-agents unless the configuration file sets them. */
const DEFAULT_SUB_AGENT_LIMIT = 3;

/**
 * The services of the toolsets served here and no others: a process without toolset `web` has no egress client. There is one client
 * per purpose, so that the page reader cannot reach the API of the model, and vice versa.
 */
export function toolServices(toolsets: readonly Toolset[], deps: ToolServiceDeps): Partial<ToolServices> {
  const services: Partial<ToolServices> = { bounded: deps.bounded };
  if (toolsets.includes('files')) services.workspaces = workspaces(deps);
  if (toolsets.includes('web')) Object.assign(services, { pages: pages(deps), search: search(deps) });
  if (toolsets.includes('agent')) services.agent = agent(deps);
  return services;
}

/** A client for one server that the operator configured, wherever it is: a search API, a model, a bucket. */
function serverEgress({ executor }: ToolServiceDeps, address: string): EgressClient {
  return executor.egress({ endpoints: [new URL(address).origin] });
}

function workspaces(deps: ToolServiceDeps): Workspaces {
  const { settings, executor } = deps;
  return new Workspaces(workspaceStore(deps), executor.host.clock, {
    ...DEFAULT_WORKSPACE_LIMITS,
    mustExist: settings.WORKSPACES_MUST_EXIST,
    quotaBytes: settings.SHANNON_MAX_WORKSPACE_SIZE_MB * 1024 * 1024,
  });
}

function workspaceStore(deps: ToolServiceDeps): WorkspaceStore {
  const { settings } = deps;
  if (settings.WORKSPACE_STORE === 'local') {
    return new LocalWorkspaceStore(settings.WORKSPACES_DIR ?? settings.SHANNON_SESSION_WORKSPACES_DIR ?? '');
  }
  const login = s3Login(settings);
  return new S3WorkspaceStore({
    ...login,
    prefix: 'workspaces/',
    fetch: egressFetch(serverEgress(deps, login.endpoint), { maxBytes: 16 * 1024 * 1024 }),
  });
}

function pages({ bounded, executor }: ToolServiceDeps): PageReader {
  const client = executor.egress({ allowlist: 'WEB_ALLOWED_DOMAINS' });
  return new PageReader(client, bounded, new Robots(client, executor.host.clock, bounded));
}

function search(deps: ToolServiceDeps): SearchProvider {
  const { settings } = deps;
  const name = settings.WEB_SEARCH_PROVIDER ?? (settings.TOOLFLEET_LOCAL ? 'local' : 'searchapi');
  if (name === 'local') return new LocalSearchProvider();
  const base = settings.WEB_SEARCH_URL ?? providerUrl(name);
  return new HttpSearchProvider(name, base, settings.WEB_SEARCH_API_KEY ?? '', serverEgress(deps, base));
}

/** Bytes of a prompt that count as one token in a reservation: less than most texts have, so that reservations suffice. */
const BYTES_PER_TOKEN = 3;
/** Tokens that a turn reserves for its answer unless the call sets a limit. */
const MAX_ANSWER_TOKENS = 2_048;

function agent(deps: ToolServiceDeps): AgentServices {
  const { settings } = deps;
  const { host, nats } = deps.executor;
  const endpoint = { baseUrl: settings.LLM_BASE_URL, model: settings.LLM_MODEL, apiKey: settings.LLM_API_KEY };
  return {
    model: new OpenAiChatModel(endpoint, serverEgress(deps, settings.LLM_BASE_URL ?? 'https://unset.invalid')),
    tools: new NatsToolCaller(nats),
    maxIterations: deps.subAgent.max_iterations ?? DEFAULT_SUB_AGENT_LIMIT,
    maxConcurrency: deps.subAgent.max_concurrency ?? DEFAULT_SUB_AGENT_LIMIT,
    toolParallelism: settings.TOOL_PARALLELISM,
    spending: new NatsSpending(nats, host.clock, 'multi_agent'),
    pricing: {
      microUsdPer1kTokens: settings.LLM_MICRO_USD_PER_1K_TOKENS,
      bytesPerToken: BYTES_PER_TOKEN,
      maxTokens: MAX_ANSWER_TOKENS,
    },
  };
}
