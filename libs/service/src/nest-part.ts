import type { LoggerService } from '@nestjs/common';
import type { Logger } from '@toolfleet/telemetry';
import type { LifecycleComponent } from './service-part.js';

/** What every Nest application has. */
interface NestApplication {
  init?(): Promise<unknown>;
  close(): Promise<unknown>;
}

/**
 * A Nest application as a part of a service. `create` makes it (module, adapter, microservice), `listen` opens it to the
 * world; both run again when a start fails. `drain` stops taking work and waits for work in flight; `stop` closes the
 * application with its lifecycle hooks.
 *
 * ```ts
 * const strategy = new NatsStrategy({ connection: nats, queue: 'registry' });
 * nestPart({
 *   name: 'endpoints',
 *   create: () => NestFactory.createMicroservice(RegistryModule.with(nats), { strategy, logger: nestLogger(host.logger) }),
 *   listen: (app) => app.listen(),
 *   drain: () => strategy.drain(),
 * })
 * ```
 */
export function nestPart<A extends NestApplication>(options: {
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
        // A half-open application would hold its port or subscriptions while the next try makes another one.
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

/** Nest's log as lines of ours: its start-up chatter at `debug`, its warnings and errors as they are. */
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
    error: (message: unknown, ...rest: unknown[]) =>
      logger.error({ ...where(rest), ...(message instanceof Error ? { error: message } : {}) }, text(message)),
    fatal: (message: unknown, ...rest: unknown[]) => logger.fatal(where(rest), text(message)),
  };
}
