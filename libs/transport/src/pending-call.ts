import type { Milliseconds, ToolError } from '@toolfleet/contracts';
import type { Clock } from '@toolfleet/resilience';
import type { Metrics } from '@toolfleet/telemetry';
import type { OutgoingHeaders } from './headers.js';
import type { NatsLink } from './nats-connection.js';
import type { IncomingMessage } from './nats-message.js';
import type { WaitingCall, PendingRequests } from './waiting-calls.js';

/** What waits in the client's table. */
export interface PendingCall extends WaitingCall {
  /** Called with every message on this token's reply subject. */
  replied(token: string, message: IncomingMessage): void;
  /** Called with every report of progress for this token. */
  progressed?(token: string, message: IncomingMessage): void;
  fail(error: ToolError): void;
}

/** What the kinds of calls use of the client. */
export interface ClientInternals {
  readonly link: NatsLink;
  readonly clock: Clock;
  readonly waiting: PendingRequests<PendingCall>;
  readonly metrics: Metrics | undefined;
  replySubject(token: string): string;
  /** Where reports of progress for this token arrive; listens there from the first time on. */
  progressSubject(token: string): string;
  headers(remainingMs: Milliseconds, own: OutgoingHeaders | undefined): OutgoingHeaders;
}
