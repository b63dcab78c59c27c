import { HEADERS, resumeSubject, SUBJECTS } from '@toolfleet/contracts/subjects';
import type { EgressLimits } from '@toolfleet/egress';
import { secretOpener, VariableExpander, VERSION } from '@toolfleet/service';
import type { ExecutorDefinition } from '@toolfleet/service/executor';
import { HELD_CONNECTIONS } from './held-calls.js';
import { McpExecutor } from './mcp-executor.js';
import { mcpExecutorConfig } from './mcp-executor.config.js';
import { STREAM_CONNECTIONS } from './mcp-session.js';
import { readTarget } from './mcp-target.js';
import { ResourceWatches } from './resource-watches.js';
import { POOL_LIMITS, SessionPool } from './session-pool.js';
import { SourceWatch } from './source-watch.js';

/** The executor of MCP servers and function endpoints: one pool of sessions, one breaker per base URL. */
export const mcpExecutor: ExecutorDefinition<(typeof mcpExecutorConfig)['table']> = {
  config: mcpExecutorConfig,
  concurrency: (settings) => settings.EXECUTOR_CONCURRENCY,
  build(settings, deps) {
    const { clock, metrics } = deps.host;
    const maxResponseBytes = settings.MCP_MAX_RESPONSE_BYTES;
    const toServers = (limits: Partial<EgressLimits>) =>
      deps.egress({ allowlist: 'MCP_ALLOWED_DOMAINS', limits: { ...limits, maxBytes: maxResponseBytes } });
    const egress = toServers({});
    const heldEgress = toServers(HELD_CONNECTIONS);
    const streamEgress = toServers(STREAM_CONNECTIONS);
    const expand = secretOpener({
      kind: 'mcp',
      expander: new VariableExpander(mcpExecutorConfig.ownKeys),
      secretKey: settings.REGISTRY_SECRET_KEY,
    });
    const pool = new SessionPool(
      {
        egress,
        heldEgress,
        streamEgress,
        clock,
        expand,
        metrics,
        maxResponseBytes,
        users: deps.users,
        allowStdio: settings.TOOLFLEET_LOCAL,
        version: VERSION,
      },
      (server) => {
        if (deps.nats.connected) deps.nats.publish(SUBJECTS.execMcpChanged, { server });
      },
      POOL_LIMITS,
    );
    const breakers = deps.shareBreakers({
      consecutiveFailures: settings.MCP_CB_FAILURES,
      recoveryMs: settings.MCP_CB_RECOVERY_SECONDS * 1_000,
    });
    deps.users.onForgotten((grant) => pool.forget(grant));
    const limits = {
      onTargetFault: (baseUrl: string) => metrics.breakerFailures.inc({ base_url: baseUrl }),
    };
    const functions = { egress, expand, maxResponseBytes };
    const executor = new McpExecutor(pool, breakers, functions, clock, limits, deps.users);
    const { held } = executor;
    const watches = new ResourceWatches(deps.nats, clock, ({ server, transport, url, options = {} }, onUpdated) => {
      const target = readTarget(server, transport, url, options);
      return new SourceWatch(pool, target, clock, onUpdated);
    });
    return {
      subjects: [SUBJECTS.execMcp, resumeSubject(held.executor)],
      execute: (message, { timeLeftMs, signal, progress, headers }, begin) =>
        executor.execute(message, {
          remainingMs: timeLeftMs,
          signal,
          beforeEffect: begin,
          onProgress: progress,
          traceparent: headers.get(HEADERS.traceparent),
        }),
      // The registry asks for the tools of a server: only this process dials MCP servers.
      requests: {
        'exec.mcp.discover': (message, { timeLeftMs, signal }) =>
          executor.discover(message, { timeoutMs: timeLeftMs, signal }),
      },
      after: [
        watches.asComponent(),
        {
          name: 'calls whose callers are asked',
          start: async () => void deps.nats.subscribe(SUBJECTS.execCancel, ({ body }) => held.cancelled(body)),
          stop: async () => held.close(),
        },
      ],
      close: () => pool.close(),
    };
  },
};
