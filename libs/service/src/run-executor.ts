/**
 * `@toolfleet/service/executor`: the common parts of executors over NATS. A separate entry, so that other services do not
 * load the NATS client and the journal with it.
 */
import type { Type } from '@nestjs/common';
import { EXEC_MESSAGE, type ExecMessage, type ExecResponse } from '@toolfleet/contracts/execution';
import type { Schema } from '@toolfleet/contracts/json-schema';
import type { EgressClient, EgressLimits } from '@toolfleet/egress';
import { IdempotentOnlyGuard, JournalGuard, RedisJournal, type ExecutionGuard } from '@toolfleet/journal';
import { BREAKER_GAUGE, type BreakerMap, type BreakerRule } from '@toolfleet/resilience';
import { inUpstreamSpan } from '@toolfleet/telemetry';
import {
  EventReporter,
  Heartbeat,
  type NatsClient,
  NatsStrategy,
  SharedBreakers,
  type EndpointContext,
} from '@toolfleet/transport';
import { AllowedEndpoints } from './allowed-endpoints.js';
import type {
  ConfigTable,
  EGRESS_KEYS,
  NATS_KEYS,
  REDIS_KEYS,
  ServiceConfig,
  SettingsOf,
} from './config/define-config.js';
import { egressClient } from './guarded-egress.js';
import type { LifecycleComponent, ServiceHost } from './lifecycle.js';
import { connectNats, endpoint, endpointsOf, ServiceModule, type Answers } from './nats-service.js';
import { microserviceComponent } from './nest-component.js';
import { UserCredentials } from './user-credentials.js';

export { UserCredentials, type UserCredential } from './user-credentials.js';

/** Settings that every executor has; without `REDIS_URL` it has no journal and runs idempotent tools only. */
type ExecutorSettings = SettingsOf<typeof NATS_KEYS> &
  SettingsOf<typeof EGRESS_KEYS> &
  Partial<SettingsOf<typeof REDIS_KEYS>>;

/** Declaration of an executor app: its configuration, and how its own parts are built from it. */
export interface ExecutorDefinition<T extends ConfigTable> {
  config: ServiceConfig<T>;
  /** Most calls in flight; more are refused as QUEUE_FULL. */
  concurrency(settings: SettingsOf<T>): number;
  /** Set when the app runs more on the Redis connection than the idempotent scripts of the journal: no command is sent twice. */
  sharesRedis?: boolean;
  build(settings: SettingsOf<T>, deps: ExecutorDeps): ExecutorService | Promise<ExecutorService>;
}

/** The app-specific part of an executor. */
interface ExecutorService {
  /** Subjects of the exec hop that this process serves. */
  subjects: readonly string[];
  /** Classes of executors that the subjects stand for, for `toolfleet_worker_slots`. Default: the service. */
  classes?: readonly string[];
  /**
   * Runs one attempt of a call. Failures of the tool are in the response.
   * @param begin claims a journalled call; await it right before the effect, and have no effect when it rejects
   * @throws ToolError when the attempt never began
   */
  execute(message: ExecMessage, context: EndpointContext, begin: () => Promise<void>): Promise<ExecResponse>;
  /** Whether the tool of a message is declared idempotent, for processes without a journal. Default: none is. */
  isIdempotent?(message: ExecMessage): boolean;
  /** Answers to other requests of `REQUESTS`. */
  requests?: Answers;
  /** Started before the endpoints and drained after them. */
  before?: readonly LifecycleComponent[];
  /** Started after the endpoints and drained before them. */
  after?: readonly LifecycleComponent[];
  /** Releases resources of the app, once the endpoints are drained. */
  close?(): Promise<void> | void;
}

type Redis = ReturnType<typeof import('@toolfleet/queue/redis').connectRedis>;

/** The components of an executor, in the order they start: brokers, the app's components, the endpoints, the heartbeat. */
export async function buildExecutor<T extends ConfigTable>(
  definition: ExecutorDefinition<T>,
  settings: SettingsOf<T>,
  host: ServiceHost,
): Promise<LifecycleComponent[]> {
  const { clock, logger } = host;
  const deps = await ExecutorDeps.create(
    settings as unknown as ExecutorSettings,
    host,
    definition.sharesRedis ?? false,
  );
  const executor = await definition.build(settings, deps);
  const guard = deps.redis?.guard ?? new IdempotentOnlyGuard((message) => executor.isIdempotent?.(message) ?? false);
  const strategy = new NatsStrategy({
    connection: deps.nats,
    queue: host.service,
    concurrency: definition.concurrency(settings),
    executors: executor.classes,
    clock,
    onFault: (error, subject) => logger.error({ error, subject }, 'an endpoint failed'),
    onStall: (stalledMs) =>
      logger.warn({ stalled_ms: stalledMs }, 'the event loop was blocked; calls that waited are refused'),
  });
  const heartbeat = new Heartbeat(deps.nats, clock, {
    service: host.service,
    slots: () => ({ busy: strategy.inFlight, total: strategy.capacity }),
    breakers: () => deps.breakerStatus(),
    faults: host.faults,
  });
  const resources: LifecycleComponent = {
    name: 'resources',
    drain: () => guard.drain(),
    stop: async () => {
      await executor.close?.();
      await deps.close();
    },
  };
  const module = { module: ServiceModule, controllers: controllers(executor, guard) };
  return [
    ...deps.connections,
    resources,
    ...(executor.before ?? []),
    microserviceComponent({ name: 'nats endpoints', module, strategy, logger }),
    heartbeat,
    ...(executor.after ?? []),
  ];
}

/** What `buildExecutor` gives to an app: the connections, and guarded ways out. Everything is closed with the service. */
export class ExecutorDeps {
  private readonly clients: EgressClient[] = [];
  private readonly allowedEndpoints: AllowedEndpoints;
  private readonly reporter: EventReporter;
  private breakers: SharedBreakers | undefined;
  private credentialsOfUsers: UserCredentials | undefined;

  private constructor(
    private readonly settings: ExecutorSettings,
    readonly host: ServiceHost,
    readonly nats: NatsClient,
    /** Unset without `REDIS_URL`. */
    readonly redis: { client: Redis; guard: JournalGuard; components: LifecycleComponent[] } | undefined,
  ) {
    this.allowedEndpoints = new AllowedEndpoints(settings, host);
    const { service, clock, logger } = host;
    this.reporter = new EventReporter({ service, nats, clock, logger });
  }

  static async create(settings: ExecutorSettings, host: ServiceHost, sharesRedis: boolean): Promise<ExecutorDeps> {
    const nats = connectNats(settings, host);
    const redis = settings.REDIS_URL === undefined ? undefined : await connectJournal(settings, host, !sharesRedis);
    return new ExecutorDeps(settings, host, nats, redis);
  }

  /** Connections in the order they start. Call it after the app is built. */
  get connections(): LifecycleComponent[] {
    const { nats, redis, breakers, reporter, credentialsOfUsers, allowedEndpoints } = this;
    return [
      nats.asComponent(),
      ...(redis?.components ?? []),
      breakers && reporter,
      breakers?.asComponent(),
      credentialsOfUsers?.asComponent(),
      allowedEndpoints,
    ].filter((one) => one !== undefined);
  }

  /**
   * A client that reaches the allowed hosts only.
   * @param options.allowlist key of the setting that lists the hosts; without it no host is allowed
   * @param options.endpoints exact origins that may also be local addresses; default: the settings'
   * @param options.limits limits other than the defaults; `maxBytes` bounds a response, after decompression
   */
  egress(options: {
    allowlist?: string;
    endpoints?: readonly string[];
    limits?: Partial<EgressLimits> | undefined;
  }): EgressClient {
    const { allowlist: key, endpoints, limits } = options;
    const allowlist =
      key === undefined ? [] : ((this.settings as unknown as Record<string, readonly string[]>)[key] ?? []);
    if (allowlist.includes('*')) this.host.logger.warn(`${key}=* lets tools reach every public host`);
    const client = egressClient(this.settings, this.host, {
      trace: inUpstreamSpan,
      allowlist,
      allowlistKey: key,
      allowAnyHost: this.settings.EGRESS_ALLOW_ANY_HOST,
      allowedEndpoints: endpoints ?? this.allowedEndpoints,
      limits,
    });
    this.clients.push(client);
    return client;
  }

  /** One breaker per base URL; an opening is shared with the other replicas of the service. Call it once. */
  shareBreakers(rule: BreakerRule): BreakerMap {
    const { clock, logger, metrics, service } = this.host;
    const shared = new SharedBreakers({
      scope: service,
      rule,
      clock,
      nats: this.nats,
      report: (event) => this.reporter.report(event),
      onTransition: ({ key, tenantId, state }) => {
        metrics.breakerState.set({ base_url: key }, BREAKER_GAUGE[shared.map.getState(key)]);
        logger.warn({ base_url: key, tenant_id: tenantId, state }, 'a breaker changed its state');
      },
    });
    this.breakers = shared;
    return shared.map;
  }

  /** Credentials of users, for sources with calls that act as them. */
  get users(): UserCredentials {
    return (this.credentialsOfUsers ??= new UserCredentials(this.nats, this.host.clock));
  }

  /** Breakers that are not closed; none where the app has no breakers. */
  breakerStatus() {
    return this.breakers?.status() ?? [];
  }

  async close(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close()));
  }
}

/**
 * The journal of calls. While Redis is unavailable, calls that need the journal are refused at once, and their gateway sends them
 * again within the deadline. Loaded only where there is a Redis.
 * @param resend sends commands again that were under way when the connection broke: every script of the journal may run twice
 */
async function connectJournal(settings: ExecutorSettings, host: ServiceHost, resend: boolean) {
  const { clock, logger, service } = host;
  const { connectRedis, redisComponent, StoreWatch, toRedisOptions } = await import('@toolfleet/queue/redis');
  const url = settings.REDIS_URL ?? '';
  const client = connectRedis(url, { name: service, ...toRedisOptions(settings), resend, log: logger });
  const guard = new JournalGuard(new RedisJournal(client, clock), clock);
  return { client, guard, components: [redisComponent(client, url), new StoreWatch(client, url, host)] };
}

function controllers(executor: ExecutorService, guard: ExecutionGuard): Type[] {
  const execute = (message: ExecMessage, context: EndpointContext) =>
    guard.run(message, (begin) => executor.execute(message, context, begin));
  // Of a binding the schema says its kind only: bindings were checked when they were registered.
  const schema = EXEC_MESSAGE as Schema<ExecMessage>;
  return [
    ...executor.subjects.map((subject) => endpoint(subject, execute, { exec: true, schema })),
    ...endpointsOf(executor.requests ?? {}),
  ];
}
