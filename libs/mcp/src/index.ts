export { answerPlainRequest, readPlainRequest } from './fast-path.js';
export { CallCancellations, readCancelledIds } from './cancellation.js';
export { CatalogRenderer } from './rendered-catalog.js';
export { createMcpServer, type FleetMcpServer } from './mcp-server.js';
export { ElicitationRelay } from './elicitation.js';
export { findSubscribable, ListenBus, readListened, selectReadable, withListened } from './listen.js';
export type { McpServerDeps, McpServerOptions, McpServerPorts } from './server-deps.js';
export { type McpSession, RedisSessionSubscriptions } from './redis-session-subscriptions.js';
export { Operation, type OperationMetrics } from './operation.js';
export { QueueTasks } from './queue-tasks.js';
export { RequestContext } from './request-context.js';
export { ResourceSubscriptions } from './resource-subscriptions.js';
export { SessionStreams } from './session-streams.js';
export {
  type Exchange,
  exchangeSession,
  newSessionId,
  readCancellableId,
  readSession,
  readStreamSession,
  requestClient,
  requestFeatures,
} from './session.js';
export { taskAnswers } from './task-answers.js';
export type { Task, TaskStore } from './tasks.js';
export { sealedStates } from './waiting-call.js';
