import 'reflect-metadata';
import { Catch, UseFilters, type ExceptionFilter } from '@nestjs/common';
import { MessagePattern } from '@nestjs/microservices';
import type { JsonObject } from '@toolfleet/contracts';
import { throwError, type Observable } from 'rxjs';

/** How a subject is served. */
export interface EndpointOptions {
  /** Queue group: one member of the group gets a message. Default: the strategy's; `false`: every process gets it. */
  queue?: string | false;
  /** JSON Schema of the body; compiled by the strategy's `compile`. A body that does not match is refused as REQUEST_INVALID. */
  schema?: JsonObject;
  /** Serves the exec hop: acknowledges by itself when the handler takes longer than 150 ms, listens to `exec.cancel`. */
  exec?: boolean;
  /** Most messages in work at once; more are refused as QUEUE_FULL. Default: only the strategy's bound. */
  concurrency?: number;
}

/** Nest keeps the argument layout of a handler here. */
const ROUTE_ARGUMENTS = '__routeArguments__';

/**
 * Hands errors to the strategy as they are. Without it Nest turns everything it does not know into "Internal server
 * error" and the code of a ToolError is lost.
 */
@Catch()
export class KeepErrors implements ExceptionFilter {
  catch(error: unknown): Observable<never> {
    return throwError(() => error);
  }
}

/**
 * Serves a NATS subject (wildcards allowed) with a controller method `(body, context: EndpointContext) => reply`. The
 * reply is sent as plain JSON; a thrown error as error headers and body. Guards, pipes, interceptors and dependency
 * injection work as anywhere in Nest; parameter decorators (`@Payload()`, `@Ctx()`) are allowed but cost time per message.
 */
export function Endpoint(subject: string, options: EndpointOptions = {}): MethodDecorator {
  return (target, key, descriptor) => {
    MessagePattern(subject, { ...options })(target, key, descriptor);
    UseFilters(KeepErrors)(target, key, descriptor);
    // Nest's default layout is "first argument only, through the pipes"; an empty one passes (body, context) straight on.
    if (!Reflect.hasMetadata(ROUTE_ARGUMENTS, target.constructor, key)) {
      Reflect.defineMetadata(ROUTE_ARGUMENTS, {}, target.constructor, key);
    }
  };
}
