import type { Toolset } from './tool-definition.js';

/** Every NATS subject of the fleet. `docs/subjects.md` is its mirror. */
export const SUBJECTS = {
  toolCall: 'tool.call',
  toolBatch: 'tool.batch',
  toolList: 'tool.list',
  toolCancel: 'tool.cancel',
  /** Holds and settles slices of a budget, for tools that spend as they go; takes delegation tokens only. */
  toolSpend: 'tool.spend',
  toolResult: 'tool.result',
  execMcp: 'exec.mcp',
  execMcpDiscover: 'exec.mcp.discover',
  /** Published by mcp-executor (`{server}`) when a server says that its list changed; the registry discovers again. */
  execMcpChanged: 'exec.mcp.changed',
  execOpenapi: 'exec.openapi',
  execBuiltin: 'exec.builtin',
  execCancel: 'exec.cancel',
  /** Prefix; see `progressSubject`. */
  execProgress: 'exec.progress',
  definitionGet: 'registry.definition.get',
  definitionList: 'registry.definition.list',
  /** Prefix; see `registerSubject`. */
  definitionRegister: 'registry.definition.register',
  definitionRetire: 'registry.definition.retire',
  /** Published (no reply) after every change. */
  definitionChanged: 'registry.definition.changed',
  /** Published by the registry when it starts: executors announce again. */
  definitionAnnounce: 'registry.definition.announce',
  quarantineList: 'registry.quarantine.list',
  quarantineApprove: 'registry.quarantine.approve',
  quarantineReject: 'registry.quarantine.reject',
  openapiRegister: 'registry.openapi.register',
  openapiValidate: 'registry.openapi.validate',
  mcpRegister: 'registry.mcp.register',
  budgetReserve: 'budget.reserve',
  budgetSettle: 'budget.settle',
  budgetRelease: 'budget.release',
  budgetUsage: 'budget.usage',
  budgetLimits: 'budget.limits',
  /** Published when a limit passes 80 %. */
  budgetThreshold: 'budget.threshold',
  /** Prefix; see `answerSubject`. */
  mcpAnswer: 'mcp.answer',
  /** Prefix; see `breakerSubject`. */
  breakerChanged: 'breaker.changed',
  /** Published by every gateway and executor every few seconds, for operators' views. */
  fleetStatus: 'fleet.status',
} as const;

/** Subject of a tenant's own door, e.g. `tool.call.acme`; nats.conf lets only that tenant publish it. */
export function tenantSubject(
  subject: 'tool.call' | 'tool.batch' | 'tool.list' | 'tool.cancel',
  tenantId: string,
): string {
  return `${subject}.${tenantId}`;
}

/** Subject on which the result of an asynchronous call is published. */
export function resultSubject(tenantId: string, callId: string): string {
  return `${SUBJECTS.toolResult}.${tenantId}.${callId}`;
}

/** Door of a toolset of builtin-executor. */
export function builtinSubject(toolset: Toolset): string {
  return `${SUBJECTS.execBuiltin}.${toolset}`;
}

/**
 * Subject on which a toolset of builtin-executor announces its tools: `registry.definition.register.<toolset>`. nats.conf lets
 * only that toolset's user publish it, so the subject proves the sender.
 */
export function registerSubject(toolset: Toolset): string {
  return `${SUBJECTS.definitionRegister}.${toolset}`;
}

/**
 * Subject on which one send of an exec call reports progress: `exec.progress.<caller>.<token>`. The caller names it in
 * `Tf-Progress` only when somebody wants to see progress.
 */
export function progressSubject(caller: string, token: string): string {
  return `${SUBJECTS.execProgress}.${caller}.${token}`;
}

/**
 * Subject on which the replicas of a service tell each other that a breaker opened. The server lets only that service publish
 * and read it, so what a message is about follows from where it came from.
 */
export function breakerSubject(service: string): string {
  return `${SUBJECTS.breakerChanged}.${service}`;
}

/** Subject on which a gateway waits for what a person answered at an MCP client: the answer may arrive at any gateway. */
export function answerSubject(gateway: string, question: string): string {
  return `${SUBJECTS.mcpAnswer}.${gateway}.${question}`;
}

/** Names of the BullMQ queues. */
export const QUEUES = { pythonRuns: 'python-runs', agentRuns: 'agent-runs', toolCalls: 'tool-calls' } as const;
/** BullMQ prefix: one hash tag, so that queue scripts run on Redis Cluster. */
export const QUEUE_PREFIX = '{fleet}';

/** Headers of the exec hop. */
export const HEADERS = {
  callId: 'Tf-Call-Id',
  attempt: 'Tf-Attempt',
  fence: 'Tf-Fence',
  /** Milliseconds left until the deadline; wall clocks are never compared between hosts. */
  remainingMs: 'Tf-Remaining-Ms',
  /** Value `accepted` on the first of two replies of an executor. */
  ack: 'Tf-Ack',
  /** Subject for progress of this send; absent when nobody asked for any. */
  progress: 'Tf-Progress',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
  authorization: 'Authorization',
} as const;

/** Wire size caps in bytes. */
export const SIZES = {
  httpBody: 8 * 1024 * 1024,
  toolResult: 5 * 1024 * 1024,
  sandboxFiles: 4 * 1024 * 1024,
  upstreamResponse: 3 * 1024 * 1024,
} as const;
