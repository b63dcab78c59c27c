import type { DynamicModule, LoggerService } from '@nestjs/common';
import type { Logger } from '@toolfleet/telemetry';
import type { LifecycleComponent } from './lifecycle.js';

/** The part of a Nest microservice that a component needs. */
interface Microservice {
  listen(): Promise<unknown>;
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
 * A Nest application as a lifecycle component. `create` builds it, again when a start is retried. `drain` stops taking work and waits
 * for work in flight; the end of the component closes the application with its lifecycle hooks.
 */
export function nestComponent(
  name: string,
  create: () => Promise<Microservice>,
  drain: () => Promise<unknown>,
): LifecycleComponent {
  let app: Microservice | undefined;
  return {
    name,
    async start() {
      app = await create();
      try {
        await app.listen();
      } catch (error) {
        // A half-open application would keep its port or subscriptions while the next attempt creates another one.
        await app.close().catch(() => undefined);
        app = undefined;
        throw error;
      }
    },
    ready: () => app !== undefined,
    async drain() {
      if (app) await drain();
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
  module: DynamicModule;
  strategy: Strategy;
  logger: Logger;
}): LifecycleComponent {
  const { name, module, strategy, logger } = options;
  const create = async () => {
    // Loaded only here, so that services without endpoints do not load Nest's core.
    const { NestFactory } = await import('@nestjs/core');
    return NestFactory.createMicroservice(module, { strategy, logger: nestLogger(logger), abortOnError: false });
  };
  return nestComponent(name, create, () => strategy.drain());
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
