import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isInitializeRequest, type ServerContext } from '@modelcontextprotocol/server';
import { isJsonObject, ToolError, type Json, type JsonObject, type Principal } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import { APPROVAL_TTL_MS, approvalForm, requireYes, type ApprovalCase } from './approval.js';
import type { GatewayMcpServer } from './mcp-server.js';

/**
 * Elicitation of 2025 on an endpoint that keeps nothing. What a later request has to know of `initialize` is said by the
 * session id itself, and an answer, which arrives as a request of its own at any replica, finds its call by its id.
 */
const SESSION_PREFIX = 'elicits-';

/** Session id for a client that can show forms; undefined for all others, who need no session. */
export function sessionFor(body: Json | undefined): string | undefined {
  if (!isInitializeRequest(body)) return undefined;
  return takesForms(body.params.capabilities) ? `${SESSION_PREFIX}${randomUUID()}` : undefined;
}

/** Whether a 2025 client said at `initialize` that it can show forms. It only speaks for itself, so nothing is signed. */
export function sessionTakesForms(session: string | null | undefined): boolean {
  return session?.startsWith(SESSION_PREFIX) === true;
}

/** Whether a request carries a session that is none of ours. */
export function hasForeignSession(headers: IncomingHttpHeaders): boolean {
  const session = headers['mcp-session-id'];
  return session !== undefined && !sessionTakesForms(String(session));
}

/** Whether declared capabilities include forms; `elicitation: {}` means forms. */
export function takesForms(capabilities: unknown): boolean {
  const elicitation = isJsonObject(capabilities) ? capabilities['elicitation'] : undefined;
  return isJsonObject(elicitation) && (Object.keys(elicitation).length === 0 || isJsonObject(elicitation['form']));
}

/** A place for one answer. */
export interface AwaitedAnswer {
  /** Id of the request to the client; its answer carries it back. */
  readonly id: string;
  /** The result the client answered. Rejects with a ToolError when it answered an error. */
  readonly answer: Promise<JsonObject>;
  /** Nobody waits any more. */
  close(): void;
}

/** Brings the answers of clients to the replica that asked. */
export abstract class ElicitationRelay {
  /** Opens a place for one answer of this caller; when this resolves, the answer may come. */
  abstract expect(from: Principal): Promise<AwaitedAnswer>;
  /** Hands over a JSON-RPC response that arrived here. @returns false when it is no answer to a question of this fleet */
  abstract deliver(from: Principal, response: JsonObject): boolean;
}

/**
 * Asks a 2025 client on the stream of its own request and waits for the answer.
 * @throws ToolError PERMISSION_DENIED when it was declined or nobody answered in time; CANCELLED
 */
export async function elicitApproval(
  questions: readonly string[],
  of: ApprovalCase,
  {
    server,
    context,
    relay,
    clock,
  }: { server: GatewayMcpServer; context: ServerContext; relay: ElicitationRelay; clock: Clock },
): Promise<void> {
  const { id: relatedRequestId, signal } = context.mcpReq;
  const awaited = await relay.expect(of.principal);
  let stop = (_reason: ToolError): void => undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = reject;
  });
  const onAbort = (): void => stop(new ToolError('CANCELLED', { message: 'The client closed the connection' }));
  const cancelTimer = clock.after(APPROVAL_TTL_MS, () =>
    stop(new ToolError('PERMISSION_DENIED', { message: 'Nobody answered whether the call is approved' })),
  );
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    if (signal.aborted) onAbort();
    const request = {
      jsonrpc: '2.0' as const,
      id: awaited.id,
      method: 'elicitation/create',
      params: approvalForm(questions, of),
    };
    // Below the SDK's own bookkeeping, which expects the answer in this process.
    const sent = server.server.transport?.send(request, { relatedRequestId });
    requireYes(await Promise.race([Promise.resolve(sent).then(() => awaited.answer), stopped]));
  } finally {
    cancelTimer();
    signal.removeEventListener('abort', onAbort);
    awaited.close();
  }
}
