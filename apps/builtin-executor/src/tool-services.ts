import {
  DEFAULT_WORKSPACE_LIMITS,
  HttpSearchProvider,
  LocalSearchProvider,
  LocalWorkspaceStore,
  OpenAiChatModel,
  PageReader,
  PROVIDER_URLS,
  Robots,
  S3WorkspaceStore,
  Workspaces,
  type AgentServices,
  type BoundedWork,
  type SearchProvider,
  type ToolServices,
  type WorkspaceStore,
} from '@toolfleet/builtin-tools';
import { isJsonObject } from '@toolfleet/contracts';
import type { Toolset } from '@toolfleet/contracts/tool-definition';
import { egressFetch } from '@toolfleet/egress';
import { fleetFileOf, FatalStartupError, type ServiceHost } from '@toolfleet/service';
import type { NatsClient } from '@toolfleet/transport';
import type { BuiltinExecutorConfig } from './builtin-executor.config.js';
import { NatsSpending } from './nats-spending.js';
import { NatsToolCaller } from './nats-tool-caller.js';
import type { ToolEgress } from './tool-egress.js';

/** Everything the services are made of. */
export interface ServiceParts {
  settings: BuiltinExecutorConfig;
  host: ServiceHost;
  bounded: BoundedWork;
  egress: ToolEgress;
  nats: NatsClient;
}

/** What the tools of the served toolsets need, and nothing of the others: a process without toolset `web` has no way out. */
export function toolServices(toolsets: readonly Toolset[], parts: ServiceParts): Partial<ToolServices> {
  return {
    bounded: parts.bounded,
    ...(toolsets.includes('files') ? { workspaces: workspaces(parts) } : {}),
    ...(toolsets.includes('web') ? { pages: pages(parts), search: search(parts) } : {}),
    ...(toolsets.includes('agent') ? { agent: agent(parts) } : {}),
  };
}

function workspaces({ settings, host, egress }: ServiceParts): Workspaces {
  return new Workspaces(workspaceStore(settings, egress), host.clock, {
    ...DEFAULT_WORKSPACE_LIMITS,
    quotaBytes: settings.SHANNON_MAX_WORKSPACE_SIZE_MB * 1024 * 1024,
    mustExist: settings.WORKSPACES_MUST_EXIST,
  });
}

function workspaceStore(settings: BuiltinExecutorConfig, egress: ToolEgress): WorkspaceStore {
  if (settings.WORKSPACE_STORE === 'local') {
    return new LocalWorkspaceStore(settings.WORKSPACES_DIR ?? settings.SHANNON_SESSION_WORKSPACES_DIR ?? '');
  }
  const endpoint = settings.S3_ENDPOINT ?? '';
  return new S3WorkspaceStore({
    endpoint,
    bucket: settings.S3_BUCKET ?? '',
    region: settings.S3_REGION,
    accessKeyId: settings.S3_ACCESS_KEY_ID ?? '',
    secretAccessKey: settings.S3_SECRET_ACCESS_KEY ?? '',
    prefix: settings.S3_PREFIX,
    fetch: egressFetch(egress.server(endpoint), { maxBytes: 16 * 1024 * 1024 }),
  });
}

function pages({ settings, host, bounded, egress }: ServiceParts): PageReader {
  const client = egress.pages();
  const robots = settings.WEB_RESPECT_ROBOTS ? new Robots(client, host.clock, bounded) : undefined;
  return new PageReader(client, bounded, robots);
}

function search({ settings, egress }: ServiceParts): SearchProvider {
  const name = settings.WEB_SEARCH_PROVIDER ?? (settings.TOOLFLEET_LOCAL ? 'local' : 'searchapi');
  if (name === 'local') return new LocalSearchProvider();
  const base = settings.WEB_SEARCH_URL ?? PROVIDER_URLS[name] ?? '';
  return new HttpSearchProvider(name, base, settings.WEB_SEARCH_API_KEY ?? '', egress.server(base));
}

function agent({ settings, host, egress, nats }: ServiceParts): AgentServices {
  const endpoint = { baseUrl: settings.LLM_BASE_URL, model: settings.LLM_MODEL, apiKey: settings.LLM_API_KEY };
  return {
    model: new OpenAiChatModel(endpoint, egress.server(settings.LLM_BASE_URL ?? 'https://unset.invalid')),
    tools: new NatsToolCaller(nats),
    ...subAgentLimits(settings),
    toolParallelism: settings.TOOL_PARALLELISM,
    spending: new NatsSpending(nats, host.clock, 'multi_agent'),
    pricing: {
      microUsdPer1kTokens: settings.LLM_MICRO_USD_PER_1K_TOKENS,
      bytesPerToken: settings.LLM_BYTES_PER_TOKEN,
      maxTokens: settings.LLM_MAX_TOKENS,
    },
  };
}

/** Section `sub_agent` of the configuration file. */
function subAgentLimits(settings: BuiltinExecutorConfig): Pick<AgentServices, 'maxIterations' | 'maxConcurrency'> {
  const section = fleetFileOf(settings)['sub_agent'] ?? {};
  if (!isJsonObject(section)) throw new FatalStartupError('sub_agent of the configuration file must be a mapping');
  const limit = (key: string, highest: number) => {
    const value = section[key] ?? 3;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < 1 || value > highest) {
      throw new FatalStartupError(`sub_agent.${key} must be a whole number from 1 to ${highest}`);
    }
    return value;
  };
  return { maxIterations: limit('max_iterations', 20), maxConcurrency: limit('max_concurrency', 10) };
}
