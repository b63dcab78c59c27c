/** A fleet of real processes for system tests: its stores, exactly the services a spec asks for, keys of its tenants. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Cluster, Redis } from 'ioredis';
import { SystemClock } from '@toolfleet/resilience';
import { expect } from 'vitest';
import {
  eventually,
  passwordFor,
  startNats,
  startRedis,
  startServiceProcess,
  type NatsServer,
  type RedisServer,
  type ServiceProcess,
} from '@toolfleet/testing';
import { ApiKeys, RedisKeyStore } from '@toolfleet/access';
import { SERVICES as SERVICE_NAMES, type ServiceName } from '../../apps/standalone/src/standalone.config.js';
import { programOf } from './service-programs.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PEPPER = 'a-pepper-for-tests-0123456789';

/** What HTTP may add to the bound of a call. Specs of the engine prove the exact bound with a fake clock. */
const GRACE_MS = 2_000;
/** What a busy machine may add for a few calls. One that its deadline does not end takes until the time-out of `ask`, 130 s. */
const LATENESS_MS = 20_000;
/** Share of the answers that keep the bound on a busy machine. */
const ON_TIME = 0.8;

/**
 * Expects that answers arrive in time: most of them within `boundMs` and 2 s, and all of them soon after. Ask several times, because one
 * answer alone may be late for reasons of the machine.
 */
export function expectOnTime(answers: readonly { tookMs: number }[], boundMs: number): void {
  const took = answers.map(({ tookMs }) => Math.round(tookMs)).toSorted((a, b) => a - b);
  const onTime = took.filter((ms) => ms < boundMs + GRACE_MS).length;
  expect(onTime / took.length, `share of ${took.join(', ')} ms below ${boundMs + GRACE_MS} ms`).toBeGreaterThanOrEqual(
    ON_TIME,
  );
  expect(took.at(-1), 'the slowest answer').toBeLessThan(boundMs + LATENESS_MS);
}

export { SERVICE_NAMES, type ServiceName };

/** A whole fleet: so many processes of each service. */
export const ofEach = (count: number): Partial<Record<ServiceName, number>> =>
  Object.fromEntries(SERVICE_NAMES.map((name) => [name, count]));

/** Brokers a spec has started itself, such as a cluster; the spec stops them after the fleet. */
export interface FleetBrokers {
  nats?: Pick<NatsServer, 'url' | 'loginOf'>;
  redis?: Pick<RedisServer, 'url' | 'urlAs'> & { client(): Redis | Cluster };
}

type Environment = Readonly<Record<string, string>>;

/** Signs tokens of calls. */
export const TOKEN_SECRET = 'a-token-secret-for-tests-0123456789abcdef';

/** What a spec needs. */
export interface FleetOptions {
  /** How many processes of each. */
  services: Partial<Record<ServiceName, number>>;
  /** The first processes of these services, or of all, are one that starts in a quarter of the time; for services that a spec does not end. */
  together?: true | readonly ServiceName[];
  /** Content of the configuration file. */
  config?: object;
  env?: Environment;
  /** Settings of one service only. */
  envOf?: Partial<Record<ServiceName, Environment>>;
  /** HMAC key of API keys. */
  pepper?: string;
  /** Tenants with their own NATS user; they may use their own subjects. */
  natsTenants?: readonly string[];
  /** Used instead of a NATS server and a Redis of the fleet's own. */
  brokers?: FleetBrokers;
  /** Tools that must be listed before the fleet counts as started. */
  tools: readonly string[];
}

/** An HTTP response. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  body: any; // oxlint-disable-line typescript/no-explicit-any -- bodies of every shape are inspected here
}

/** How to send one request. */
export interface Ask {
  method?: string;
  path: string;
  body?: unknown;
  key?: string | null;
  headers?: Record<string, string>;
  /** Number of the gateway. */
  gateway?: number;
  signal?: AbortSignal;
}

/** How to call a tool; `fields` are added to the body of the call. */
export type CallOptions = Omit<Ask, 'path' | 'body'> & { fields?: object };

/** Sends one request to the gateway at an origin. */
export async function askAt(
  origin: string,
  { method, path, body, key = null, headers = {}, signal }: Ask,
): Promise<Answer> {
  const response = await fetch(`${origin}${path}`, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: signal ?? AbortSignal.timeout(130_000),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true && text !== '';
  return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : undefined };
}

/**
 * A fleet that runs. Its brokers have the files of deploy/, and a process of one service logs in as the user of that service. Processes of
 * several services, of several toolsets or with plugins are not deployed so: they log in as users that may do everything.
 */
export class TestFleet {
  readonly running = new Map<ServiceName, ServiceProcess[]>();
  /** Every process ever started, for its log. */
  readonly all: { name: ServiceName; process: ServiceProcess }[] = [];
  /** Operator of the fleet; administrator of tenant `acme`; key of plain tenants by name. */
  operatorKey = '';
  adminKey = '';
  readonly keys: Record<string, string> = {};

  private constructor(
    private readonly options: FleetOptions,
    private readonly ownNats: NatsServer | undefined,
    private readonly ownRedis: RedisServer | undefined,
    readonly folder: string,
  ) {}

  static async start(options: FleetOptions): Promise<TestFleet> {
    const { brokers = {} } = options;
    const [nats, redis, folder] = await Promise.all([
      brokers.nats ? undefined : startNats({ tenants: options.natsTenants }),
      brokers.redis ? undefined : startRedis({ appendOnly: true }),
      mkdtemp(join(tmpdir(), 'toolfleet-fleet-')),
    ]);
    const fleet = new TestFleet(options, nats, redis, folder);
    try {
      await fleet.#start();
      return fleet;
    } catch (error) {
      await fleet.stop();
      throw error;
    }
  }

  /** The NATS server of this fleet's own. */
  get nats(): NatsServer {
    if (!this.ownNats) throw new Error('this fleet has the NATS of its spec');
    return this.ownNats;
  }

  /** The Redis of this fleet's own. */
  get redis(): RedisServer {
    if (!this.ownRedis) throw new Error('this fleet has the Redis of its spec');
    return this.ownRedis;
  }

  async #start(): Promise<void> {
    const { config = {}, services, tools } = this.options;
    // JSON is YAML.
    await writeFile(
      join(this.folder, 'fleet.yaml'),
      JSON.stringify({
        rate_limits: {
          tiers: { wide: { requests_per_minute: 1e6, requests_per_hour: 1e7, requests_per_day: 1e8 } },
        },
        ...config,
      }),
    );
    await this.#issueKeys();
    const counts = Object.entries(services) as [ServiceName, number][];
    const { together = [] } = this.options;
    const shared = counts
      .filter(([name, count]) => count > 0 && (together === true || together.includes(name)))
      .map(([name]) => name);
    const own = counts.flatMap(([name, count]) =>
      Array.from({ length: count - (shared.includes(name) ? 1 : 0) }, () => name),
    );
    if (shared.length > 0) await this.#launchTogether(shared);
    await Promise.all(own.map((name) => this.launch(name)));
    await this.untilListed(tools);
  }

  /** Starts one more process and waits until it is ready. `build` is the root of another release's working tree. */
  launch(name: ServiceName, env: Environment = {}, build = ROOT): Promise<ServiceProcess> {
    return this.#launch(programOf(name, build), [name], env);
  }

  #launchTogether(names: readonly ServiceName[]): Promise<ServiceProcess> {
    return this.#launch(programOf('standalone'), names, { TOOLFLEET_SERVICES: names.join(',') });
  }

  async #launch(entry: string, names: readonly ServiceName[], env: Environment): Promise<ServiceProcess> {
    const own: Environment = {
      ...this.#environment(),
      ...this.options.env,
      ...Object.assign({}, ...names.map((name) => this.options.envOf?.[name])),
      ...env,
    };
    const process = startServiceProcess({ entry, env: { ...this.#loginOf(names, own), ...own } });
    for (const name of names) this.all.push({ name, process });
    await process.ready();
    for (const name of names) this.running.set(name, [...(this.running.get(name) ?? []), process]);
    return process;
  }

  /** Ends one process as a crash would. */
  async kill(name: ServiceName, index = 0): Promise<void> {
    await this.#take(name, index).kill();
  }

  /** SIGTERM and the exit code. Between its leaving the rotation and the signal `preStop` runs, as a pod's does. */
  async terminate(
    name: ServiceName,
    index = 0,
    preStop?: () => Promise<void>,
    graceMs?: number,
  ): Promise<number | null> {
    const process = this.#take(name, index);
    await preStop?.();
    return process.terminate(graceMs);
  }

  /** Thaws and starts again what a test left, also one that failed midway: the next one has the whole fleet. */
  async restore(): Promise<void> {
    await Promise.all([this.ownNats?.revive(), this.ownRedis?.revive()]);
    for (const process of [...this.running.values()].flat()) process.resume();
    const missing = (Object.entries(this.options.services) as [ServiceName, number][]).flatMap(([name, count]) =>
      Array.from({ length: Math.max(0, count - (this.running.get(name)?.length ?? 0)) }, () => name),
    );
    await Promise.all(missing.map((name) => this.launch(name)));
  }

  process(name: ServiceName, index = 0): ServiceProcess {
    const process = this.running.get(name)?.[index];
    if (!process) throw new Error(`no ${name} ${index}`);
    return process;
  }

  url(gateway = 0): string {
    return `http://127.0.0.1:${String(this.process('gateway', gateway).facts['port'])}`;
  }

  /** One HTTP request; by default with the administrator's key at the first gateway. */
  ask({ gateway, key = this.adminKey, ...rest }: Ask): Promise<Answer> {
    return askAt(this.url(gateway), { key, ...rest });
  }

  /** Calls a tool over the native HTTP API. */
  call(tool: string, args: object, ask: CallOptions = {}): Promise<Answer> {
    const { fields, ...rest } = ask;
    return this.ask({ path: `/api/v1/tools/${tool}/execute`, body: { arguments: args, ...fields }, ...rest });
  }

  /** Waits until every gateway lists the tools. */
  async untilListed(tools: readonly string[]): Promise<void> {
    for (const gateway of (this.running.get('gateway') ?? []).keys()) {
      await eventually(
        `${tools.join(', ')} are listed`,
        async () => {
          const { body } = await this.ask({ path: '/tools/list', gateway });
          return Array.isArray(body) && tools.every((tool) => body.includes(tool));
        },
        { everyMs: 100 },
      );
    }
  }

  /** Everything the services printed. */
  logs(): string {
    return [...new Set(this.all.map(({ process }) => process))]
      .map((process) => process.log() + process.errors())
      .join('\n');
  }

  async stop(): Promise<void> {
    await Promise.all(this.all.map(({ process }) => process.kill()));
    await Promise.all([this.ownNats?.stop(), this.ownRedis?.stop()]);
    await rm(this.folder, { recursive: true, force: true, maxRetries: 3 });
  }

  get #pepper(): string {
    return this.options.pepper ?? PEPPER;
  }

  #take(name: ServiceName, index: number): ServiceProcess {
    const process = this.process(name, index);
    this.running.set(
      name,
      (this.running.get(name) ?? []).filter((other) => other !== process),
    );
    return process;
  }

  /** Addresses and logins of the brokers for a process of these services. */
  #loginOf(names: readonly ServiceName[], env: Environment): Environment {
    const { BUILTIN_TOOLSETS: toolsets = '', BUILTIN_PLUGINS_DIR: plugins } = env;
    const [nats, redis] = [this.options.brokers?.nats ?? this.nats, this.options.brokers?.redis ?? this.redis];
    const [name, ...others] = names;
    if (others.length > 0 || (name === 'builtin-executor' && (plugins || toolsets.includes(','))))
      return { NATS_URL: nats.url, REDIS_URL: redis.url };
    const user = name === 'builtin-executor' ? `builtin-${toolsets}` : String(name);
    const login = nats.loginOf(user);
    return {
      NATS_URL: login?.url ?? nats.url,
      ...(login && { NATS_USER: login.user, NATS_PASSWORD: login.password }),
      REDIS_URL: redis.urlAs(user) ?? '',
      REDIS_PURGE_PASSWORD: passwordFor('purge'),
    };
  }

  async #issueKeys(): Promise<void> {
    const store = new RedisKeyStore((this.options.brokers?.redis ?? this.redis).client() as Redis);
    const keys = new ApiKeys(store, { pepper: this.#pepper, environment: 'test' }, new SystemClock());
    const issue = async (tenantId: string, client: string, roles: string[]) =>
      (await keys.issue({ tenantId, client, roles, tier: 'wide' }, 'test')).token;
    this.operatorKey = await issue('operator', 'ops', ['admin', 'operator']);
    this.adminKey = await issue('acme', 'admin', ['admin']);
    for (const tenant of ['acme', 'globex']) this.keys[tenant] = await issue(tenant, 'app', []);
  }

  #environment(): Environment {
    return {
      ENVIRONMENT: 'test',
      ADMIN_PORT: '0',
      GATEWAY_PORT: '0',
      TOOLFLEET_CONFIG: join(this.folder, 'fleet.yaml'),
      DATABASE_DIR: this.folder,
      // A fleet without the service records no calls, and does not wait for it when it ends.
      ...(this.options.services.records ? {} : { GATEWAY_CALL_SPOOL: '0' }),
      ...(this.options.services.identity ? { GATEWAY_IDENTITY: 'true' } : {}),
      WORKSPACES_DIR: join(this.folder, 'workspaces'),
      BUILTIN_TOOLSETS: 'compute',
      MCP_RATE_LIMIT_DEFAULT: '0',
      CALCULATOR_RATE_LIMIT: '1000000',
      DRAIN_TIMEOUT_MS: '10000',
      GATEWAY_TOKEN_SECRET: TOKEN_SECRET,
      API_KEY_PEPPER: this.#pepper,
      REGISTRY_SECRET_KEY: 'a-registry-key-for-tests-0123456789abcdef',
      IDENTITY_SECRET_KEYS: 'k1:an-identity-key-for-tests-0123456789abcdef',
      RECORDS_SECRET_KEY: 'a-records-key-for-tests-0123456789abcdef',
      LOG_LEVEL: 'info',
      POLICY_DIR: join(ROOT, 'deploy/policies'),
      // Compiling the interpreter ahead takes seconds of a core.
      PYTHON_SANDBOX_WARM_UP_MS: '0',
      PYTHON_SANDBOX_THREADS: '2',
      ...(this.options.natsTenants === undefined ? {} : { GATEWAY_TRUST_TENANT_SUBJECTS: 'true' }),
    };
  }
}
