import type { Interceptor } from '@toolfleet/engine';

/** One kind of interceptor. `load` is part of the start of the service, `close` of its end. */
export interface InterceptorKind {
  intercept: Interceptor['intercept'];
  load?(): Promise<void>;
  close?(): Promise<void>;
}
