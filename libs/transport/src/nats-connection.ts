/**
 * The one file, beside its nats-message.ts, that knows the `nats` package, so that its successor is a swap of these. It adds what the package lacks
 * for many small messages: the publishes of one event-loop turn leave in one write (the package writes per microtask, and
 * each write costs every process on the way one read), and headers are bytes made once.
 */
import {
  connect,
  createInbox,
  ErrorCode,
  usernamePasswordAuthenticator,
  type ConnectionOptions,
  type MsgHdrs,
  type NatsConnection,
  type Subscription,
} from 'nats';
import { ToolError } from '@toolfleet/contracts';
import { publicUrl, splitUrl } from './nats-url.js';
import { encodeHeaders, type OutgoingHeaders } from './headers.js';
import { NatsMessage, type IncomingMessage } from './nats-message.js';
import { receiveIntoOneBuffer } from './nats-receive-buffer.js';

/** Where and as whom to connect. */
export interface NatsOptions {
  /** Servers separated by commas; credentials may stand in the URL. */
  url: string;
  /** Name shown by the server for this connection. */
  name: string;
  user?: string;
  /** A function is asked at each connect. */
  password?: string | (() => string);
  /** File with the CA of the servers; turns TLS on. */
  tlsCa?: string;
  /** Hears of receivers that threw; without it they become warnings of the process. */
  onFault?: (error: unknown, subject: string) => void;
}

/** A subscription that can end at once, or after the messages already received. */
export interface NatsSubscription {
  unsubscribe(): void;
  drain(): Promise<void>;
}

/** Transport states a listener hears of. */
export type ConnectionState = 'connected' | 'disconnected' | 'closed';

const PING_INTERVAL_MS = 5_000; // a dead connection is noticed within 10 s
const MAX_PINGS_OUT = 2;
const RECONNECT_WAIT_MS = 250;
const CONNECT_TIMEOUT_MS = 5_000;
/** Codes of the package for a login or TLS setting that another try does not mend. */
const REFUSALS: ReadonlySet<string> = new Set([
  ErrorCode.AuthorizationViolation,
  ErrorCode.AuthenticationExpired,
  ErrorCode.AccountExpired,
  ErrorCode.BadAuthentication,
  ErrorCode.BadCreds,
  ErrorCode.InvalidOption,
  ErrorCode.ServerOptionNotAvailable,
  ErrorCode.Tls,
]);

/** One connection to NATS. Reconnects forever; while it is away `connected` is false and nothing is buffered for later. */
export class NatsLink {
  #connection: NatsConnection | undefined;
  #connected = false;
  #closing = false;
  #turn: (() => void)[] = [];
  readonly #listeners: ((state: ConnectionState) => void)[] = [];
  readonly #flushTurn = (): void => {
    try {
      // What a step adds comes to its turn in the same pass.
      for (const step of this.#turn) step();
    } finally {
      this.#turn = [];
    }
  };

  constructor(private readonly options: NatsOptions) {
    receiveIntoOneBuffer();
  }

  /** Connects once; rejects in one clear line when no server answers. Repeating after a failure is allowed. */
  async connect(): Promise<void> {
    if (this.#connection) return;
    try {
      this.#connection = await connect(this.#connectionOptions());
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const code = REFUSALS.has(String((error as { code?: unknown }).code)) ? 'NATS_REFUSED' : 'NATS_AWAY';
      throw Object.assign(new Error(`no NATS server at ${publicUrl(this.options.url)}: ${reason}`, { cause: error }), {
        code,
      });
    }
    this.#connected = true;
    void this.#followStatus(this.#connection);
    this.#tell('connected');
  }

  /** True while messages can be sent. */
  get connected(): boolean {
    return this.#connected && !this.#closing;
  }

  /** Largest message the server takes, headers included, in bytes. */
  get maxPayload(): number {
    return this.#connection?.info?.max_payload ?? 1_048_576;
  }

  /** Called on every change of state. */
  onState(listener: (state: ConnectionState) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * A new unique subject prefix for replies, ending in a dot. With a user it starts with `_INBOX.<user>`, the only inboxes
   * that deploy/nats.conf lets that user read: nobody else can listen in on replies.
   */
  newInbox(): string {
    const user = this.options.user ?? splitUrl(this.options.url).user;
    return `${createInbox(user !== undefined && /^[\w-]+$/.test(user) ? `_INBOX.${user}` : undefined)}.`;
  }

  /**
   * Sends at the end of this event-loop turn, together with everything else sent in it. `failed` hears of a message that
   * could not be handed to the connection. Throws PAYLOAD_TOO_LARGE at once.
   */
  publish(
    subject: string,
    data: Uint8Array,
    options: { reply?: string; headers?: OutgoingHeaders; failed?: (error: unknown) => void } = {},
  ): void {
    const connection = this.#required();
    requireSubject(subject);
    const encoded = options.headers && encodeHeaders(options.headers);
    const size = data.length + (encoded?.length ?? 0);
    if (size > this.maxPayload) {
      throw new ToolError('PAYLOAD_TOO_LARGE', {
        message: `Message of ${size} bytes; NATS takes ${this.maxPayload}`,
        details: { bytes: size, limit: this.maxPayload },
      });
    }
    // The package asks its header object for nothing but the bytes.
    const headers = encoded && ({ encode: () => encoded } as unknown as MsgHdrs);
    const native = { ...(options.reply ? { reply: options.reply } : {}), ...(headers ? { headers } : {}) };
    this.onTickEnd(() => {
      try {
        connection.publish(subject, data, native);
      } catch (error) {
        options.failed?.(error);
      }
    });
  }

  /** Runs `step`, which does not throw, at the end of this event-loop turn; what it publishes still leaves with this turn. */
  onTickEnd(step: () => void): void {
    this.#turn.push(step);
    if (this.#turn.length === 1) setImmediate(this.#flushTurn);
  }

  /** Subscribes; survives reconnects. What `received` throws goes to `onFault`. */
  subscribe(subject: string, received: (message: IncomingMessage) => void, queue?: string): NatsSubscription {
    requireSubject(subject);
    const subscription: Subscription = this.#required().subscribe(subject, {
      ...(queue ? { queue } : {}),
      callback: (error, message) => {
        if (error !== null) return;
        try {
          received(new NatsMessage(message));
        } catch (fault) {
          // Thrown into the package's parser it would end the connection, and with it every other call.
          this.#report(fault, subject);
        }
      },
    });
    return {
      unsubscribe: () => {
        if (!subscription.isClosed()) subscription.unsubscribe();
      },
      drain: async () => {
        if (!subscription.isClosed() && this.#connected) await subscription.drain();
      },
    };
  }

  /** Resolves when the server has seen everything sent so far. */
  async flush(): Promise<void> {
    this.#flushTurn();
    if (this.#connected) await this.#connection?.flush();
  }

  /** Sends what is waiting and closes. */
  async close(): Promise<void> {
    const connection = this.#connection;
    if (!connection || this.#closing) return;
    this.#flushTurn();
    this.#closing = true;
    try {
      // Draining asks the server; without one there is nobody to ask.
      if (this.#connected) await connection.drain();
      else await connection.close();
    } catch {
      await connection.close();
    }
  }

  #required(): NatsConnection {
    if (!this.#connection) throw new ToolError('EXECUTOR_UNAVAILABLE', { message: 'Not connected to NATS yet' });
    return this.#connection;
  }

  #connectionOptions(): ConnectionOptions {
    const { servers, user, pass } = splitUrl(this.options.url);
    const login = this.options.user ?? user;
    const password = this.options.password ?? pass;
    return {
      servers,
      name: this.options.name,
      ...(login === undefined ? {} : { authenticator: usernamePasswordAuthenticator(login, password ?? '') }),
      ...(this.options.tlsCa ? { tls: { caFile: this.options.tlsCa } } : {}),
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_WAIT_MS,
      ignoreAuthErrorAbort: true,
      timeout: CONNECT_TIMEOUT_MS,
      pingInterval: PING_INTERVAL_MS,
      maxPingOut: MAX_PINGS_OUT,
      // Stack traces of every request would cost a fifth of the throughput.
      noAsyncTraces: true,
    };
  }

  async #followStatus(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') this.#change(false);
      else if (status.type === 'reconnect') this.#change(true);
      else if (status.permissionContext) this.#refused(status.permissionContext);
    }
    this.#connected = false;
    this.#tell('closed');
  }

  /** Without a word of it, a request the server refuses to carry looks like one nobody answers. */
  #refused({ operation, subject }: { operation: string; subject: string }): void {
    this.#report(new Error(`NATS refuses this user to ${operation} on ${subject}`), subject);
  }

  /** Never throws. */
  #report(fault: unknown, subject: string): void {
    try {
      if (this.options.onFault) return this.options.onFault(fault, subject);
      process.emitWarning(fault instanceof Error ? fault : String(fault));
    } catch (error) {
      process.emitWarning(error instanceof Error ? error : String(error));
    }
  }

  #change(connected: boolean): void {
    if (this.#connected === connected) return;
    this.#connected = connected;
    this.#tell(connected ? 'connected' : 'disconnected');
  }

  #tell(state: ConnectionState): void {
    for (const listener of this.#listeners) listener(state);
  }
}

/** A blank or a line break in a subject would be read as the next word of the protocol. */
function requireSubject(subject: string): void {
  if (subject === '' || /\s/.test(subject)) {
    throw new ToolError('REQUEST_INVALID', { message: `Not a NATS subject: ${JSON.stringify(subject.slice(0, 100))}` });
  }
}
