import type { Json, JsonObject } from '@toolfleet/contracts';

/**
 * Transforms requests and responses of one vendor's API. Hooks run after the arguments were validated and before authentication, so an
 * adapter never sees a secret. A hook returns the new value and must not modify its input; an exception fails the call, because an
 * untransformed request could do harm.
 */
export interface VendorAdapter {
  /** As named in `vendor_adapter`, lower case. */
  readonly name: string;
  /** The `body` argument before it is serialised; undefined when the call has none. */
  transformBody?(body: Json | undefined, operationId: string, promptParams: JsonObject): Json | undefined;
  /** Request headers by lower-case name, before credentials and extra headers. */
  transformHeaders?(
    headers: Readonly<Record<string, string>>,
    operationId: string,
    promptParams: JsonObject,
  ): Record<string, string>;
  /** The output of a successful answer. */
  transformResponse?(output: Json, operationId: string): Json;
}
