/**
 * The only file, with nats-receive-buffer.ts, that uses the `nats` package. It adds to the package for many small messages: everything published within one
 * event-loop tick leaves in one write (the package writes per microtask, and each write costs every process on the way a read), and
 * headers are encoded once.
 */
import { TLSSocket } from 'node:tls';
import {
  connect,
  createInbox,
  ErrorCode,
  usernamePasswordAuthenticator,
  type ConnectionOptions,
  type Msg,
  type MsgHdrs,
  type NatsConnection,
  type Subscription,
} from 'nats';
import { ToolError } from '@toolfleet/contracts';
import {
  decodeText,
  HeaderBlock,
  headerText,
  LARGE_MESSAGE,
  type IncomingHeaders,
  type IncomingMessage,
  type OutgoingBody,
  type OutgoingHeaders,
} from './codec.js';
import { freeWholeMemory } from './free-memory.js';
import { publicUrl, splitUrl, type NatsOptions } from './nats-options.js';
import { receiveIntoOneBuffer } from './nats-receive-buffer.js';

/** A subscription to a subject. */
export interface NatsSubscription {
  /** Ends at once. */
  unsubscribe(): void;
  /** Ends after the messages already received. */
  drain(): Promise<void>;
}

const PING_INTERVAL_MS = 5_000; // detects a dead connection within 10 s
const MAX_PINGS_OUT = 2;
const RECONNECT_WAIT_MS = 250;
const CONNECT_TIMEOUT_MS = 5_000;
/** Codes of the package for a login or TLS setting that another attempt does not fix. */
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

/**
 * One connection to NATS. It reconnects until it is closed; while disconnected, `connected` is false and nothing is buffered for later.
 */
export class NatsLink {
  #connection: NatsConnection | undefined;
  #connected = false;
  #closing = false;
  #probe: Promise<boolean> | undefined;
  #tick: (() => void)[] = [];
  readonly #flushTick = (): void => {
    try {
      // Steps added meanwhile run in the same pass.
      for (const step of this.#tick) step();
    } finally {
      this.#tick = [];
    }
  };

  constructor(private readonly options: NatsOptions) {
    receiveIntoOneBuffer();
  }

  /**
   * Connects; may be repeated after a failure.
   * @throws Error with code `NATS_REFUSED` (login or TLS; retrying does not help) or `NATS_AWAY`
   */
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
  }

  /** True while messages can be sent. */
  get connected(): boolean {
    return this.#connected && !this.#closing;
  }

  /** When the certificate of the server expires; undefined without TLS. */
  get certificateExpiry(): Date | undefined {
    // Not public API of the package; without it the figure is not shown.
    const { protocol } = (this.#connection ?? {}) as { protocol?: { transport?: { socket?: unknown } } };
    const socket = protocol?.transport?.socket;
    const end = socket instanceof TLSSocket ? Date.parse(socket.getPeerCertificate().valid_to) : Number.NaN;
    return Number.isNaN(end) ? undefined : new Date(end);
  }

  /** Largest message the server takes, headers included, in bytes. */
  get maxPayload(): number {
    return this.#connection?.info?.max_payload ?? 1_048_576;
  }

  /**
   * A new unique subject prefix for replies, ending in a dot. With a user it starts with `_INBOX.<user>`, the only inboxes
   * that deploy/nats.conf lets that user read, so that other users cannot read the replies.
   */
  newInbox(): string {
    const user = this.options.user ?? splitUrl(this.options.url).user;
    return `${createInbox(user !== undefined && /^[\w-]+$/.test(user) ? `_INBOX.${user}` : undefined)}.`;
  }

  /**
   * Sends at the end of this event-loop tick, together with everything else sent in it. A message that stays in the process arrives sooner,
   * after the code that runs now. `failed` is called when the message could
   * not be handed to the connection.
   * @throws ToolError PAYLOAD_TOO_LARGE, REQUEST_INVALID (subject), EXECUTOR_UNAVAILABLE (never connected)
   */
  publish(
    subject: string,
    body: OutgoingBody,
    options: { reply?: string; headers?: OutgoingHeaders; failed?: (error: unknown) => void } = {},
  ): void {
    const connection = this.#required();
    requireSubject(subject);
    const text = options.headers && headerText(options.headers);
    const size = body.length + (text === undefined ? 0 : Buffer.byteLength(text));
    if (size > this.maxPayload) {
      throw new ToolError('PAYLOAD_TOO_LARGE', {
        message: `The message has ${size} bytes; NATS accepts at most ${this.maxPayload}`,
        details: { bytes: size, limit: this.maxPayload },
      });
    }
    const { reply = '' } = options;
    const receive = this.options.exchange?.receiverOf(subject, reply !== '');
    if (receive) return void AFTER_THIS.then(() => receive(new LocalMessage(subject, reply, body, text)));
    this.onTickEnd(() => {
      try {
        // The package only calls `encode` of its header object.
        const headers = text === undefined ? undefined : ({ encode: () => Buffer.from(text) } as unknown as MsgHdrs);
        connection.publish(subject, body.bytes, { reply: options.reply, headers });
      } catch (error) {
        options.failed?.(error);
      }
    });
  }

  /** Runs `step` (must not throw) at the end of this event-loop tick; its messages leave with this tick. */
  onTickEnd(step: () => void): void {
    this.#tick.push(step);
    if (this.#tick.length === 1) setImmediate(this.#flushTick);
  }

  /** Subscribes across reconnects. What `received` throws goes to `onFault`. */
  subscribe(subject: string, received: (message: IncomingMessage) => void, queue?: string): NatsSubscription {
    requireSubject(subject);
    const receive = (message: IncomingMessage): void => {
      try {
        received(message);
      } catch (fault) {
        // An error thrown into the package's parser would close the connection and fail every other call.
        this.#report(fault, subject);
      }
    };
    const subscription: Subscription = this.#required().subscribe(subject, {
      queue,
      callback: (error, message) => {
        if (error === null) receive(new NatsMessage(message));
      },
    });
    const leave = this.options.exchange?.join({ subject, queue, receive });
    return {
      unsubscribe: () => {
        leave?.();
        if (!subscription.isClosed()) subscription.unsubscribe();
      },
      drain: async () => {
        leave?.();
        if (!subscription.isClosed() && this.#connected) await subscription.drain();
      },
    };
  }

  /**
   * Whether the server answers a ping; pending until it does, or until the connection breaks. A server that hangs stays connected for
   * up to `PING_INTERVAL_MS * MAX_PINGS_OUT`.
   */
  answers(): Promise<boolean> {
    if (!this.connected || !this.#connection) return Promise.resolve(false);
    // Shared, so that probes do not pile up on a connection that hangs.
    return (this.#probe ??= this.#connection
      .flush()
      .then(
        () => this.connected,
        () => false,
      )
      .finally(() => (this.#probe = undefined)));
  }

  /** Resolves when the server has received everything sent so far. */
  async flush(): Promise<void> {
    this.#flushTick();
    if (this.#connected) await this.#connection?.flush();
  }

  /** Sends queued messages and closes. */
  async close(): Promise<void> {
    const connection = this.#connection;
    if (!connection || this.#closing) return;
    this.#flushTick();
    this.#closing = true;
    try {
      // Draining needs a round trip to the server.
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
      authenticator: login === undefined ? undefined : usernamePasswordAuthenticator(login, password ?? ''),
      tls: this.options.tlsCa ? { caFile: this.options.tlsCa } : undefined,
      maxReconnectAttempts: -1,
      reconnectTimeWait: RECONNECT_WAIT_MS,
      ignoreAuthErrorAbort: true,
      timeout: CONNECT_TIMEOUT_MS,
      pingInterval: PING_INTERVAL_MS,
      maxPingOut: MAX_PINGS_OUT,
      // Capturing a stack trace per request would cost a fifth of the throughput.
      noAsyncTraces: true,
    };
  }

  async #followStatus(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === 'disconnect') this.#connected = false;
      else if (status.type === 'reconnect') this.#connected = true;
      else if (status.permissionContext) this.#denied(status.permissionContext);
    }
    this.#connected = false;
  }

  /** Reported, because a request that the server refuses to carry otherwise looks like one without a reply. */
  #denied({ operation, subject }: { operation: string; subject: string }): void {
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
}

/** Whitespace in a subject would be parsed as the next token of the NATS protocol. */
function requireSubject(subject: string): void {
  if (subject === '' || /\s/.test(subject)) {
    throw new ToolError('REQUEST_INVALID', { message: `Not a NATS subject: ${JSON.stringify(subject.slice(0, 100))}` });
  }
}

/** Its reactions run after the code that adds them. An immediate costs thirty functions of Node more, and a wait for the event loop. */
const AFTER_THIS = Promise.resolve();

/** A message that did not leave the process. */
class LocalMessage implements IncomingMessage {
  readonly isNoResponders = false;
  readonly headers: IncomingHeaders | undefined;
  readonly size: number;
  readonly text: string;

  constructor(
    readonly subject: string,
    readonly reply: string,
    private readonly body: OutgoingBody,
    headers: string | undefined,
  ) {
    this.headers = headers === undefined ? undefined : new HeaderBlock(headers);
    this.size = body.length;
    this.text = body.text;
  }

  get data(): Uint8Array {
    return this.body.bytes;
  }
}

/** The package's message behind our interface; headers are read only when asked for. */
class NatsMessage implements IncomingMessage {
  #headers: IncomingHeaders | undefined;

  constructor(private readonly message: Msg) {}

  get subject(): string {
    return this.message.subject;
  }

  get reply(): string {
    return this.message.reply ?? '';
  }

  get size(): number {
    return this.message.data.length;
  }

  get data(): Uint8Array {
    return this.message.data;
  }

  get headers(): IncomingHeaders | undefined {
    return (this.#headers ??= readHeaders(this.message));
  }

  free(): void {
    const { data } = this.message;
    if (data.length > LARGE_MESSAGE) freeWholeMemory(data);
  }

  get isNoResponders(): boolean {
    return this.message.data.length === 0 && this.message.headers?.code === 503;
  }
}

/**
 * The package decodes all headers of a message into a map of lists; the fleet reads two or three. The raw bytes are not public API,
 * so a version without them falls back to the package's own decoding.
 */
function readHeaders(message: Msg): IncomingHeaders | undefined {
  const { _msg: frame, _rdata: bytes } = message as unknown as { _msg?: { hdr?: number }; _rdata?: Uint8Array };
  if (typeof frame?.hdr === 'number' && bytes instanceof Uint8Array) {
    return frame.hdr > 0 ? new HeaderBlock(decodeText(bytes.subarray(0, frame.hdr))) : undefined;
  }
  const { headers } = message;
  return headers && { get: (name) => headers.get(name) || undefined };
}
