import 'reflect-metadata';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { createLogger, createMetrics, startTracing, type Logger } from '@toolfleet/telemetry';
import { LocalExchange } from '@toolfleet/transport/local-exchange';
import { AdminServer, Announcer } from './admin-server.js';
import type { ConfigTable, ServiceConfig, SettingsOf, SharedSettings, LoadedConfig } from './config/define-config.js';
import { ConfigError, EXIT_CONFIG, loadConfig } from './config/load-config.js';
import { describeSettings, faultLine, helpText } from './config/print-config.js';
import { SecretFiles } from './config/secret-files.js';
import { FLEET_FILE_KEYS } from './fleet-file.js';
import {
  checkReady,
  drainAndStop,
  FatalStartupError,
  oneLine,
  startComponents,
  type LifecycleComponent,
  type ServiceHost,
} from './lifecycle.js';
import { releaseStartMemory } from './release-start-memory.js';
import { ServiceFaults } from './service-faults.js';
import { lastExpiry } from './certificate-expiry.js';
import { classifyBuildError, classifyStartupError } from './startup-errors.js';

type Components = Promise<readonly LifecycleComponent[]> | readonly LifecycleComponent[];

/** A service that a process runs, alone or with others. */
export interface Service<T extends ConfigTable = ConfigTable> {
  readonly config: ServiceConfig<T>;
  /** Builds the components from the settings. Connect in `start` of a component, so that it can be retried. */
  build(settings: SettingsOf<T>, host: ServiceHost): Components;
}

/** Declares a service by its configuration and its components. */
export function defineService<T extends ConfigTable>(
  config: ServiceConfig<T>,
  build: (settings: SettingsOf<T>, host: ServiceHost) => Components,
): Service<T> {
  return { config, build };
}

/** Version of every package of the repository; they are released together. */
export const VERSION = '0.1.0';

/**
 * Runs a service process: checks the configuration (exit code 78 on faults, `--help` prints the table), opens the admin port, starts the
 * components, waits for SIGTERM, SIGINT or the end of the parent, drains, and exits with code 0. A second signal ends the process at
 * once. Resolves when the components have started; never rejects.
 *
 * @param others further services of the process, in the order they start. They share its admin port, metrics and end; what one asks of
 * another does not leave the process.
 */
export async function startService<T extends ConfigTable>(
  service: Service<T>,
  others?: (settings: SettingsOf<T>) => Promise<readonly Service[]>,
): Promise<void> {
  // Ledger, results, workspaces and temporary files are for this user only.
  process.umask(0o077);
  // A getter in Node; packages read it for each header, and for each argument of Redis.
  Object.defineProperty(globalThis, 'Buffer', { value: Buffer, writable: true, configurable: true });
  const clock = new SystemClock();
  const first = new HostedService(service, clock);
  const more = (await others?.(first.loaded.settings as SettingsOf<T>)) ?? [];
  const run = new ServiceRun([first, ...more.map((one) => new HostedService(one, clock))], clock);
  run.watchProcess();
  try {
    await run.start();
  } catch (error) {
    run.startFailed(error);
  }
}

/** One service of the process: its checked settings, logger, faults and secret files. */
class HostedService {
  readonly name: string;
  readonly loaded: LoadedConfig<ConfigTable>;
  readonly shared: SharedSettings;
  readonly logger: Logger;
  readonly faults: ServiceFaults;
  readonly secrets: SecretFiles;
  /** The settings by key, secrets masked. */
  readonly shown: Readonly<Record<string, string>>;

  constructor(
    private readonly service: Service,
    clock: Clock,
  ) {
    const { config } = service;
    this.name = config.service;
    this.loaded = loadOrExit(config);
    this.shared = this.loaded.settings as unknown as SharedSettings;
    const { LOG_LEVEL: level, ENVIRONMENT: environment } = this.shared;
    this.logger = createLogger({ service: this.name, level, environment });
    this.faults = new ServiceFaults(clock);
    this.secrets = new SecretFiles(config.table, this.loaded, { logger: this.logger, clock, faults: this.faults });
    this.shown = describeSettings(config, this.loaded);
    this.logger.info({ settings: this.shown, version: VERSION }, 'starting');
  }

  /** Building depends on the configuration alone, so an error other than a bug is a mistake in a variable or in the file. */
  async build(host: ServiceHost): Promise<readonly LifecycleComponent[]> {
    try {
      return await this.service.build(this.loaded.settings, host);
    } catch (error) {
      if (classifyBuildError(error) === 'bug') throw error;
      const message = oneLine(error);
      const file = Object.keys(FLEET_FILE_KEYS).find((key) => this.shown[key] !== undefined);
      const check = file === undefined || NAMES_A_KEY.test(message) ? '' : `; check ${this.showSettings([file])}`;
      throw new FatalStartupError(`the configuration is invalid: ${message}${check}`);
    }
  }

  /** Settings as text, for messages. */
  showSettings(keys: readonly string[]): string {
    return keys
      .map((key) => (this.shown[key] === undefined ? `${key} (unset)` : `${key}="${this.shown[key]}"`))
      .join(', ');
  }
}

function loadOrExit(config: ServiceConfig): LoadedConfig<ConfigTable> {
  if (process.argv.includes('--help') || process.argv.includes('-h')) {
    process.stdout.write(helpText(config));
    process.exit(0);
  }
  try {
    return loadConfig(config);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const lines = error.faults.map((fault) => `  ${faultLine(fault)}`);
    process.stderr.write(
      `${config.service}: the configuration is invalid (--help lists every key)\n${lines.join('\n')}\n`,
    );
    process.exit(EXIT_CONFIG);
  }
}

const MS_PER_DAY = 86_400_000;

/** A message that already names a variable needs no hint at the file. */
const NAMES_A_KEY = /\b[A-Z]+_[A-Z_]+\b/;

/** State of a running process. The first of its services has the settings of shared parts. */
class ServiceRun {
  readonly #draining = new AbortController();
  readonly #startedComponents: LifecycleComponent[] = [];
  readonly #metrics;
  readonly #admin: AdminServer;
  readonly #announcer: Announcer;
  readonly #first: HostedService;
  readonly #exchange: LocalExchange | undefined;
  #stopTracing: (() => Promise<void>) | undefined;
  #components: readonly LifecycleComponent[] = [];
  #started = false;
  #ending = false;

  constructor(
    private readonly services: readonly [HostedService, ...HostedService[]],
    private readonly clock: Clock,
  ) {
    [this.#first] = services;
    this.#exchange = services.length > 1 ? new LocalExchange() : undefined;
    const { TOOLFLEET_REVISION: revision } = this.#first.shared;
    this.#metrics = createMetrics({ version: VERSION, revision }, { defaults: true });
    this.#announcer = new Announcer(this.#first.name);
    const announceFaults = () => this.#announcer.announce({ faults: this.#faults().map((fault) => ({ ...fault })) });
    for (const { faults } of services) faults.onChange(announceFaults);
    this.#admin = new AdminServer(
      { started: () => this.#started, ready: () => this.#checkReady(), faults: () => this.#faults() },
      this.#metrics,
    );
  }

  async start(): Promise<void> {
    const { logger, shared } = this.#first;
    let port = 0;
    const admin: LifecycleComponent = {
      name: 'admin server',
      settings: ['ADMIN_HOST', 'ADMIN_PORT'],
      start: async () => {
        // From here on the listening socket keeps the process alive; timers of the clock do not.
        port = await this.#admin.listen(shared.ADMIN_HOST, shared.ADMIN_PORT);
        this.#announcer.announce({ admin_port: port });
      },
    };
    await this.#startComponents(this.#first, [admin], () => undefined);
    await this.#trace();
    this.#metrics.onScrape(() => this.#measureReady());
    this.#metrics.onScrape(() => this.#measureFaults());
    this.#metrics.onScrape(() => this.#measureExpiry());
    const built = await Promise.all(this.services.map((service) => this.#build(service)));
    this.#components = built.flatMap(({ components }) => components);
    for (const { service, components } of built) {
      await this.#startComponents(service, components, (component) => this.#startedComponents.push(component));
      service.secrets.watch();
    }
    releaseStartMemory();
    this.#started = true;
    this.#announcer.announce({ started: true });
    logger.info({ admin_port: port, parts: this.#components.map(({ name }) => name) }, 'started');
  }

  async #build(service: HostedService) {
    const components = await service.build(this.#host(service));
    return {
      service,
      components: this.#exchange ? components.map((one) => withPrefix(service.name, one)) : components,
    };
  }

  #startComponents(
    service: HostedService,
    components: readonly LifecycleComponent[],
    onStarted: (component: LifecycleComponent) => void,
  ): Promise<void> {
    const showSettings = (keys: readonly string[]) => service.showSettings(keys);
    const { logger } = service;
    return startComponents(
      components,
      { clock: this.clock, logger, stopped: this.#draining.signal, showSettings },
      onStarted,
    );
  }

  /** Handles signals, the end of the parent, and uncaught errors. */
  watchProcess(): void {
    for (const [signal, code] of [
      ['SIGTERM', 143],
      ['SIGINT', 130],
    ] as const) {
      process.on(signal, () => {
        if (this.#ending) process.exit(code);
        void this.end(signal, 0);
      });
    }
    // Started by the local runner or a test, a service must not outlive its parent. Race: when the parent ended while this process
    // was loading its code, 'disconnect' was emitted before anything listened, and only `connected` tells.
    const parentEnded = () => void this.end('end of the parent process', 0);
    if (process.connected) process.on('disconnect', parentEnded);
    else if (process.send) parentEnded();
    process.on('uncaughtException', (error) => this.#crash(error));
    process.on('unhandledRejection', (error) => this.#crash(error));
  }

  startFailed(error: unknown): void {
    if (this.#ending) return;
    const isMistake = classifyStartupError(error) === 'mistake';
    const { logger } = this.#first;
    if (isMistake) logger.fatal(`cannot start: ${oneLine(error)}`);
    else logger.fatal({ error }, `cannot start: ${oneLine(error)}`);
    void this.end('failed start', isMistake ? EXIT_CONFIG : 1);
  }

  async end(why: string, code: number): Promise<void> {
    if (this.#ending) return;
    this.#ending = true;
    const { logger } = this.#first;
    logger.info({ why }, 'draining');
    this.#draining.abort(new Error(`draining: ${why}`));
    const drainMs = Math.max(...this.services.map(({ shared }) => shared.DRAIN_TIMEOUT_MS));
    await drainAndStop(this.#startedComponents, { clock: this.clock, logger, drainMs });
    for (const { secrets } of this.services) secrets.stop();
    await this.#stopTracing?.().catch((error: unknown) =>
      logger.warn(`spans could not be exported: ${oneLine(error)}`),
    );
    await this.#admin.close();
    logger.info('ended');
    process.exit(code);
  }

  async #measureReady(): Promise<void> {
    const { parts } = await this.#checkReady();
    for (const { name, ready } of this.#components) {
      if (ready) this.#metrics.componentReady.set({ component: name }, parts[name] ? 1 : 0);
    }
  }

  #measureFaults(): void {
    this.#metrics.faults.reset();
    for (const { faults } of this.services)
      for (const [subject, count] of faults.countByClass()) this.#metrics.faults.inc({ subject }, count);
  }

  #measureExpiry(): void {
    this.#metrics.expiry.reset();
    const show = (subject: string, at: Date | undefined) => {
      if (at) this.#metrics.expiry.set({ subject }, (at.getTime() - this.clock.now()) / MS_PER_DAY);
    };
    for (const component of this.#components) show(component.name, component.expiresAt?.());
    for (const [key, value] of this.services.flatMap(({ loaded }) => Object.entries(loaded.settings))) {
      if (key.endsWith('_TLS_CA') && typeof value === 'string') show(key, lastExpiry(value));
    }
  }

  #checkReady() {
    const state = { started: this.#started, draining: this.#draining.signal.aborted, clock: this.clock };
    return checkReady(this.#components, state);
  }

  async #trace(): Promise<void> {
    const {
      OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
      OTEL_TRACES_SAMPLE_RATIO: sampleRatio,
      ENVIRONMENT,
    } = this.#first.shared;
    if (endpoint === undefined) return;
    this.#stopTracing = await startTracing({
      service: this.#first.name,
      version: VERSION,
      environment: ENVIRONMENT,
      endpoint,
      sampleRatio,
    });
  }

  #faults() {
    return this.services.flatMap(({ faults }) => faults.list());
  }

  #host({ name, logger, faults, secrets }: HostedService): ServiceHost {
    return {
      service: name,
      logger,
      clock: this.clock,
      metrics: this.#metrics,
      faults,
      exchange: this.#exchange,
      draining: this.#draining.signal,
      announce: (facts) => this.#announcer.announce(facts),
      onSecretChange: (key, changed) => secrets.follow(key, changed),
    };
  }

  #crash(error: unknown): void {
    this.#first.logger.fatal({ error }, `uncaught fault: ${oneLine(error)}`);
    process.exit(1);
  }
}

/** The component under a name that tells services of one process apart. */
function withPrefix(service: string, component: LifecycleComponent): LifecycleComponent {
  const { name, settings, start, ready, expiresAt, drain, stop } = component;
  return {
    name: `${service} ${name}`,
    settings,
    start: start?.bind(component),
    ready: ready?.bind(component),
    expiresAt: expiresAt?.bind(component),
    drain: drain?.bind(component),
    stop: stop?.bind(component),
  };
}
