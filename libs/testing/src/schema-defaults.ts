import type { JsonObject } from '@toolfleet/contracts';

/** The defaults of the members of a schema: what the gateway adds to the arguments of a call. */
export function schemaDefaults({ properties = {} }: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(properties as Record<string, JsonObject>).flatMap(([name, { default: value }]) =>
      value === undefined ? [] : [[name, value]],
    ),
  );
}
