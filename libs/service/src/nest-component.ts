import type { DynamicModule, LoggerService, Type } from '@nestjs/common';
import type { Logger } from '@toolfleet/telemetry';
import type { LifecycleComponent } from './lifecycle.js';

/** Common parts of Nest applications. */
interface NestApplication {
  init?(): Promise<unknown>;
  close(): Promise<unknown>;
}

/** A transport that Nest serves (`NatsStrategy` of libs/transport). */
interface Strategy {
  listen(done: (error?: unknown) => void): unknown;
  close(): unknown;
  /** Stops taking messages and waits until those in flight are answered. */
  drain(): Promise<unknown>;
}

/**
 * A Nest application as a lifecycle component. `create` builds it (module, adapter, microservice), `listen` opens it; both run again
 * when a start is retried. `drain` stops taking work and waits for work in flight; `stop` closes the application with its lifecycle
 * hooks.
 */
export function nestComponent<A extends NestApplication>(options: {
  name: string;
  create: () => Promise<A>;
  listen?: (app: A) => Promise<unknown>;
  ready?: () => boolean | Promise<boolean>;
  drain?: (app: A) => Promise<unknown>;
}): LifecycleComponent & { readonly app: A | undefined } {
  let app: A | undefined;
  return {
    name: options.name,
    get app() {
      return app;
    },
    async start() {
      app = await options.create();
      try {
        await (options.listen ? options.listen(app) : app.init?.());
      } catch (error) {
        // A half-open application would keep its port or subscriptions while the next attempt creates another one.
        await app.close().catch(() => undefined);
        app = undefined;
        throw error;
      }
    },
    ready: () => app !== undefined && (options.ready?.() ?? true),
    async drain() {
      if (app) await options.drain?.(app);
    },
    async stop() {
      await app?.close();
    },
  };
}

/**
 * A Nest module with endpoints that are served over one strategy, as a lifecycle component. List it after everything the endpoints use: it
 * then starts last and drains first, so that every reply is still sent. A module that cannot be built fails the start and does not end
 * the process.
 */
export function microserviceComponent(options: {
  name: string;
  module: Type | DynamicModule;
  strategy: Strategy;
  logger: Logger;
}): LifecycleComponent {
  const { name, module, strategy, logger } = options;
  return nestComponent({
    name,
    create: async () => {
      // Loaded only here, so that services without endpoints do not load Nest's core.
      const { NestFactory } = await import('@nestjs/core');
      return NestFactory.createMicroservice(module, { strategy, logger: nestLogger(logger), abortOnError: false });
    },
    listen: (app) => app.listen(),
    drain: () => strategy.drain(),
  });
}

/** Writes Nest's log to a service's logger: start-up messages at `debug`, warnings and errors at their own level. */
export function nestLogger(logger: Logger): LoggerService {
  const text = (message: unknown): string => (message instanceof Error ? message.message : String(message));
  const where = (rest: unknown[]): object => {
    const context = rest.at(-1);
    return typeof context === 'string' ? { context } : {};
  };
  return {
    log: (message: unknown, ...rest: unknown[]) => logger.debug(where(rest), text(message)),
    debug: (message: unknown, ...rest: unknown[]) => logger.debug(where(rest), text(message)),
    verbose: (message: unknown, ...rest: unknown[]) => logger.trace(where(rest), text(message)),
    warn: (message: unknown, ...rest: unknown[]) => logger.warn(where(rest), text(message)),
    error: (message: unknown, ...rest: unknown[]) => {
      const error = message instanceof Error ? message : undefined;
      logger.error({ ...where(rest), error }, text(message));
    },
    fatal: (message: unknown, ...rest: unknown[]) => logger.fatal(where(rest), text(message)),
  };
}
