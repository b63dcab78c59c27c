import type { Binding, Toolset } from './tool-definition.js';

/** NATS subjects of calls and announcements. Requests between services are in `REQUESTS`. A test compares both with `docs/subjects.md` and `deploy/nats.conf`. */
export const SUBJECTS = {
  /** These four also with the name of a tenant, such as `tool.call.acme`: nats.conf allows only that tenant to publish to it. */
  toolCall: 'tool.call',
  toolBatch: 'tool.batch',
  toolList: 'tool.list',
  toolCancel: 'tool.cancel',
  /** Reserves and settles slices of a budget, for tools that spend while they run. Accepts delegation tokens only. */
  toolSpend: 'tool.spend',
  toolResult: 'tool.result',
  execMcp: 'exec.mcp',
  /** Prefix; see `resumeSubject`. */
  execMcpResume: 'exec.mcp.resume',
  /** Published by mcp-executor (`{server}`) when a server announces that its tool list changed; the registry then rediscovers it. */
  execMcpChanged: 'exec.mcp.changed',
  /** Published by gateways: the resources of one source that their clients subscribe to (`ResourceLease`). */
  execMcpWatch: 'exec.mcp.watch',
  /** Published by the mcp-executor that subscribes to resources of a source (`ResourceClaim`), for the others. */
  execMcpClaim: 'exec.mcp.claim',
  execOpenapi: 'exec.openapi',
  execBuiltin: 'exec.builtin',
  execCancel: 'exec.cancel',
  /** Prefix; see `progressSubject`. */
  execProgress: 'exec.progress',
  /** Prefix; see `registerSubject`. */
  definitionRegister: 'registry.definition.register',
  /** Published (no reply) after every change. */
  definitionChanged: 'registry.definition.changed',
  /** Published by the registry when it starts: executors announce their tools again. */
  definitionAnnounce: 'registry.definition.announce',
  /** Published (no reply) after every change of a toolset. */
  toolsetChanged: 'registry.toolset.changed',
  /** Published (no reply) by identity when users connected again, or grants were revoked (`GrantsChanged`). */
  grantChanged: 'identity.grant.changed',
  /** Published (no reply) by identity: the roles of a user who signed in or was asked about (`UserChanged`). */
  userChanged: 'identity.user.changed',
  /** Prefix; see `eventReportSubject`. */
  recordsEvent: 'records.event',
  /** Prefix; see `apiSubject`. */
  api: 'api',
  /** Prefix; see `eventSubject`. */
  event: 'event',
  /** Prefix; see `answerSubject`. */
  mcpAnswer: 'mcp.answer',
  /** Published by a gateway when an MCP client cancels a request that runs on another one. */
  mcpCancel: 'mcp.cancel',
  /** Published by a gateway when the subscriptions of an MCP session changed (`{session}`), or it has another stream (`stream`). */
  mcpSession: 'mcp.session',
  /** Published by mcp-executor when a resource that clients subscribe to has changed (`ResourceUpdate`). */
  mcpUpdated: 'mcp.updated',
  /** Published by a gateway while a revocation cannot be stored: `{revoked: {<key id>: <epoch ms>}}`. */
  keyRevoked: 'key.revoked',
  /** Prefix; see `breakerSubject`. */
  breakerChanged: 'breaker.changed',
  /** Published by every gateway and executor every few seconds, for operators' views. */
  fleetStatus: 'fleet.status',
} as const;

/** Subject on which the result of an asynchronous call is published. */
export function resultSubject(tenantId: string, callId: string): string {
  return `${SUBJECTS.toolResult}.${tenantId}.${callId}`;
}

/** Subject on which an event is published once it is durable: `event.<tenant>.<kind>`, such as `event.acme.call.finished`. */
export function eventSubject(tenantId: string, kind: string): string {
  return `${SUBJECTS.event}.${tenantId}.${kind}`;
}

/**
 * Subject on which a service reports events: `records.event.<service>`. nats.conf allows only that service's user to publish to it, so
 * the subject authenticates the sender.
 */
export function eventReportSubject(service: string): string {
  return `${SUBJECTS.recordsEvent}.${service}`;
}

/** Subject on which builtin-executor serves a toolset. */
export function builtinSubject(toolset: Toolset): string {
  return `${SUBJECTS.execBuiltin}.${toolset}`;
}

/**
 * Subject on which a toolset of builtin-executor announces its tools: `registry.definition.register.<toolset>`. nats.conf
 * allows only that toolset's user to publish to it, so the subject authenticates the sender.
 */
export function registerSubject(toolset: Toolset): string {
  return `${SUBJECTS.definitionRegister}.${toolset}`;
}

/**
 * Subject on which an attempt reports progress: `exec.progress.<caller>.<token>`. The caller sends it in `Tf-Progress` if it
 * wants progress.
 */
export function progressSubject(caller: string, token: string): string {
  return `${SUBJECTS.execProgress}.${caller}.${token}`;
}

/**
 * Subject on which the replicas of a service announce that a breaker opened. Only that service may publish and read it, so the
 * subject authenticates the sender.
 */
export function breakerSubject(service: string): string {
  return `${SUBJECTS.breakerChanged}.${service}`;
}

/** Subject of attempts with answers for a call that one mcp-executor holds open (`RequiredInput.executor`). */
export function resumeSubject(executor: string): string {
  return `${SUBJECTS.execMcpResume}.${executor}`;
}

/** Subject on which a gateway waits for a person's answer to an MCP elicitation from any other gateway. */
export function answerSubject(gateway: string, question: string): string {
  return `${SUBJECTS.mcpAnswer}.${gateway}.${question}`;
}

/** Subject on which gateways ask the owner of a route, by the id of its operation. Only gateways may publish below `api`. */
export function apiSubject(owner: string, operation: string): string {
  return `${SUBJECTS.api}.${owner}.${operation}`;
}

/** Names of the BullMQ queues. */
export const QUEUES = {
  pythonRuns: 'python-runs',
  programRuns: 'program-runs',
  agentRuns: 'agent-runs',
  toolCalls: 'tool-calls',
} as const;
/** BullMQ prefix. Its hash tag puts all keys of the queues into one slot, as scripts on Redis Cluster require. */
export const QUEUE_PREFIX = '{fleet}';

/** The class of executors that serves a toolset over NATS, as metrics name it. */
export function toolsetExecutor(toolset: Toolset): string {
  return `builtin-${toolset}`;
}

/** The class of executors that runs tools with this binding, as metrics name it: a service, a toolset's workload or a queue. */
export function executorClass(binding: Binding): string {
  switch (binding.kind) {
    case 'mcp':
      return 'mcp-executor';
    case 'openapi':
      return 'openapi-executor';
    case 'python':
      return QUEUES.pythonRuns;
    case 'program':
      return QUEUES.programRuns;
    case 'result':
      return 'gateway';
    case 'builtin':
      return binding.toolset === 'agent' ? QUEUES.agentRuns : toolsetExecutor(binding.toolset);
  }
}

/** Headers of the exec hop, and of messages that callers send. */
export const HEADERS = {
  callId: 'Tf-Call-Id',
  attempt: 'Tf-Attempt',
  fence: 'Tf-Fence',
  /** Milliseconds left until the deadline, because clocks of different hosts are not comparable. */
  remainingMs: 'Tf-Remaining-Ms',
  /** `accepted` on the first of an executor's two replies. */
  ack: 'Tf-Ack',
  /** Subject for progress of this attempt; absent when the caller wants none. */
  progress: 'Tf-Progress',
  /** Tenant of a large exec message: tenants take turns before their messages are parsed. */
  tenant: 'Tf-Tenant',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
  authorization: 'Authorization',
  apiKey: 'X-API-Key',
  /** The toolset of a message of `tool.*`: `support`, or `support@3` for one version. */
  toolset: 'X-Toolset',
} as const;

/** Largest sizes on the wire, in bytes. */
export const SIZES = {
  /** `max_payload` of NATS. */
  message: 16 * 1024 * 1024,
  /** Body of a request to an entry point (HTTP, MCP, NATS), as the ingress in deploy/k8s allows it. */
  request: 8 * 1024 * 1024,
  toolResult: 5 * 1024 * 1024,
  sandboxFiles: 4 * 1024 * 1024,
  sandboxResult: 4 * 1024 * 1024,
  upstreamResponse: 3 * 1024 * 1024,
} as const;

/** Largest response of an OpenAPI server, in bytes. @param asked `max_response_bytes` of its source */
export function openapiResponseLimit(asked: unknown): number {
  return Number(asked) > 0 ? Math.min(Number(asked), SIZES.upstreamResponse) : SIZES.upstreamResponse;
}

/**
 * Largest result of a tool, in bytes: of remote tools the response of the server after decompression, of Python its value, of builtin
 * tools output, text and metadata as JSON. Undefined for kept results: they have the limits of their tools.
 */
export function maxResultBytes(binding: Binding): number | undefined {
  switch (binding.kind) {
    case 'mcp':
      // The gateway sets it in each definition (`withLimits`).
      return Number(binding.options?.max_response_bytes ?? SIZES.upstreamResponse);
    case 'openapi':
      return openapiResponseLimit(binding.options?.max_response_bytes);
    case 'python':
    case 'program':
      return SIZES.sandboxResult;
    case 'builtin':
      return SIZES.toolResult;
    case 'result':
      return undefined;
  }
}
