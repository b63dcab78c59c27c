import type { DynamicModule, Type } from '@nestjs/common';
import type { Logger } from '@toolfleet/telemetry';
import { nestLogger, nestPart } from './nest-part.js';
import type { LifecycleComponent } from './service-part.js';

/** A way in that Nest serves (`NatsStrategy` of libs/transport). */
interface Strategy {
  listen(done: (error?: unknown) => void): unknown;
  close(): unknown;
  /** Stops taking messages and waits until those in work are answered. */
  drain(): Promise<unknown>;
}

/**
 * A Nest module whose endpoints are served over one strategy, as a part of a service. List it after everything the
 * endpoints use: it then starts last and drains first, so that every answer is still sent. A module that cannot be built
 * fails the start instead of ending the process.
 */
export function microservicePart(options: {
  name: string;
  /** The class of the module, or what its `with`/`of` returned. */
  module: Type | DynamicModule;
  strategy: Strategy;
  logger: Logger;
}): LifecycleComponent {
  const { name, module, strategy, logger } = options;
  return nestPart({
    name,
    create: async () => {
      // Services without endpoints do not carry Nest's core.
      const { NestFactory } = await import('@nestjs/core');
      return NestFactory.createMicroservice(module, { strategy, logger: nestLogger(logger), abortOnError: false });
    },
    listen: (app) => app.listen(),
    drain: () => strategy.drain(),
  });
}
