import 'reflect-metadata';
import { SystemClock, type Clock } from '@toolfleet/resilience';
import { createLogger, createMetrics, startTracing, type Logger } from '@toolfleet/telemetry';
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

/** Builds the components of a service from its settings. Connect in `start` of a component, so that it can be retried. */
type BuildComponents<T extends ConfigTable> = (settings: SettingsOf<T>, host: ServiceHost) => Components;

/** Version of every package of the repository; they are released together. */
export const VERSION = '0.1.0';

/**
 * Runs a service process: checks the configuration (exit code 78 on faults, `--help` prints the table), opens the admin port, starts the
 * components, waits for SIGTERM, SIGINT or the end of the parent, drains, and exits with code 0. A second signal ends the process at
 * once. Resolves when the components have started; never rejects.
 */
export async function startService<T extends ConfigTable>(
  config: ServiceConfig<T>,
  build: BuildComponents<T>,
): Promise<void> {
  // Ledger, results, workspaces and temporary files are for this user only.
  process.umask(0o077);
  const loaded = loadOrExit(config);
  const shared = loaded.settings as unknown as SharedSettings;
  const logger = createLogger({
    service: config.service,
    level: shared.LOG_LEVEL,
    environment: shared.ENVIRONMENT,
  });
  const clock = new SystemClock();
  const faults = new ServiceFaults(clock);
  const secrets = new SecretFiles(config.table, loaded, { logger, clock, faults });
  const run = new ServiceRun(config.service, shared, logger, clock, faults, secrets);
  run.watchProcess();
  logger.info({ settings: describeSettings(config, loaded), version: VERSION }, 'starting');
  try {
    await run.start((host) => build(loaded.settings, host), describeSettings(config, loaded));
  } catch (error) {
    run.startFailed(error);
  }
}

function loadOrExit<T extends ConfigTable>(config: ServiceConfig<T>): LoadedConfig<T> {
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

/** State of one running service. */
class ServiceRun {
  readonly #draining = new AbortController();
  readonly #startedComponents: LifecycleComponent[] = [];
  readonly #metrics;
  readonly #admin: AdminServer;
  readonly #announcer: Announcer;
  #stopTracing: (() => Promise<void>) | undefined;
  #components: readonly LifecycleComponent[] = [];
  #started = false;
  #ending = false;

  constructor(
    private readonly service: string,
    private readonly settings: SharedSettings,
    private readonly logger: Logger,
    private readonly clock: Clock,
    private readonly faults: ServiceFaults,
    private readonly secrets: SecretFiles,
  ) {
    this.#metrics = createMetrics({ version: VERSION, revision: settings.TOOLFLEET_REVISION }, { defaults: true });
    this.#announcer = new Announcer(service, settings.TOOLFLEET_PORT_FILE);
    faults.onChange(() => this.#announcer.announce({ faults: faults.list().map((fault) => ({ ...fault })) }));
    this.#admin = new AdminServer(
      {
        started: () => this.#started,
        ready: () => this.#checkReady(),
        faults: () => this.faults.list(),
      },
      this.#metrics,
    );
  }

  /** @param shown the settings by key, secrets masked */
  async start(build: (host: ServiceHost) => Components, shown: Readonly<Record<string, string>>): Promise<void> {
    const showSettings = (keys: readonly string[]) =>
      keys.map((key) => (shown[key] === undefined ? `${key} (unset)` : `${key}="${shown[key]}"`)).join(', ');
    let port = 0;
    const admin: LifecycleComponent = {
      name: 'admin server',
      settings: ['ADMIN_HOST', 'ADMIN_PORT', 'TOOLFLEET_PORT_FILE'],
      start: async () => {
        // From here on the listening socket keeps the process alive; timers of the clock do not.
        port = await this.#admin.listen(this.settings.ADMIN_HOST, this.settings.ADMIN_PORT);
        this.#announcer.announce({ admin_port: port });
      },
    };
    const tools = { clock: this.clock, logger: this.logger, stopped: this.#draining.signal, showSettings };
    await startComponents([admin], tools, () => undefined);
    await this.#trace();
    const file = Object.keys(FLEET_FILE_KEYS).find((key) => shown[key] !== undefined);
    this.#components = await this.#build(build, showSettings, file);
    this.#metrics.onScrape(() => this.#measureReady());
    this.#metrics.onScrape(() => this.#measureFaults());
    this.#metrics.onScrape(() => this.#measureExpiry());
    await startComponents(this.#components, tools, (component) => this.#startedComponents.push(component));
    this.secrets.watch();
    releaseStartMemory();
    this.#started = true;
    this.#announcer.announce({ started: true });
    this.logger.info({ admin_port: port, parts: this.#components.map(({ name }) => name) }, 'started');
  }

  /** Building depends on the configuration alone, so an error other than a bug is a mistake in a variable or in the file. */
  async #build(
    build: (host: ServiceHost) => Components,
    showSettings: (keys: readonly string[]) => string,
    file: string | undefined,
  ): Promise<readonly LifecycleComponent[]> {
    try {
      return await build(this.#host());
    } catch (error) {
      if (classifyBuildError(error) === 'bug') throw error;
      const message = oneLine(error);
      const check = file === undefined || NAMES_A_KEY.test(message) ? '' : `; check ${showSettings([file])}`;
      throw new FatalStartupError(`the configuration is invalid: ${message}${check}`);
    }
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
    if (isMistake) this.logger.fatal(`cannot start: ${oneLine(error)}`);
    else this.logger.fatal({ error }, `cannot start: ${oneLine(error)}`);
    void this.end('failed start', isMistake ? EXIT_CONFIG : 1);
  }

  async end(why: string, code: number): Promise<void> {
    if (this.#ending) return;
    this.#ending = true;
    this.logger.info({ why }, 'draining');
    this.#draining.abort(new Error(`draining: ${why}`));
    const drainMs = this.settings.DRAIN_TIMEOUT_MS;
    await drainAndStop(this.#startedComponents, { clock: this.clock, logger: this.logger, drainMs });
    this.secrets.stop();
    await this.#stopTracing?.().catch((error: unknown) =>
      this.logger.warn(`spans could not be exported: ${oneLine(error)}`),
    );
    await this.#admin.close();
    this.logger.info('ended');
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
    for (const [subject, count] of this.faults.countByClass()) this.#metrics.faults.set({ subject }, count);
  }

  #measureExpiry(): void {
    this.#metrics.expiry.reset();
    const show = (subject: string, at: Date | undefined) => {
      if (at) this.#metrics.expiry.set({ subject }, (at.getTime() - this.clock.now()) / MS_PER_DAY);
    };
    for (const component of this.#components) show(component.name, component.expiresAt?.());
    for (const [key, value] of Object.entries(this.settings)) {
      if (key.endsWith('_TLS_CA') && typeof value === 'string') show(key, lastExpiry(value));
    }
  }

  #checkReady() {
    const state = { started: this.#started, draining: this.#draining.signal.aborted, clock: this.clock };
    return checkReady(this.#components, state);
  }

  async #trace(): Promise<void> {
    const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLE_RATIO: sampleRatio, ENVIRONMENT } = this.settings;
    if (endpoint === undefined) return;
    this.#stopTracing = await startTracing({
      service: this.service,
      version: VERSION,
      environment: ENVIRONMENT,
      endpoint,
      sampleRatio,
    });
  }

  #host(): ServiceHost {
    return {
      service: this.service,
      logger: this.logger,
      clock: this.clock,
      metrics: this.#metrics,
      faults: this.faults,
      draining: this.#draining.signal,
      announce: (facts) => this.#announcer.announce(facts),
      onSecretChange: (key, changed) => this.secrets.follow(key, changed),
      fail: (error) => {
        this.logger.fatal({ error }, `ending after an unrecoverable error: ${oneLine(error)}`);
        void this.end('a fault', 1);
      },
    };
  }

  #crash(error: unknown): void {
    this.logger.fatal({ error }, `uncaught fault: ${oneLine(error)}`);
    process.exit(1);
  }
}
