import { isJsonObject, jsonObject, type Json, type JsonObject } from '@toolfleet/contracts';
import type { VendorAdapter } from './vendor-adapter.js';

/** Metric names of users, mapped to the vendor's. */
const METRIC_ALIASES: ReadonlyMap<string, string> = new Map([
  ['users', 'di:unique_users'],
  ['sessions', 'di:total_sessions'],
]);

/** DataInsight analytics: metric aliases, account of the session, names of the time range. */
export class DataInsightAdapter implements VendorAdapter {
  readonly name = 'datainsight';

  transformBody(body: Json | undefined, _operationId: string, promptParams: JsonObject): Json | undefined {
    if (!isJsonObject(body)) return body;
    const next: JsonObject = { ...body };
    if (Array.isArray(next.metrics)) {
      next.metrics = next.metrics.map((metric) =>
        typeof metric === 'string' ? (METRIC_ALIASES.get(metric) ?? metric) : metric,
      );
    }
    if (promptParams.account_id !== undefined) next.account_id = promptParams.account_id;
    if (isJsonObject(next.timeRange)) next.timeRange = renamed(next.timeRange);
    return next;
  }
}

/** `start` and `end` are moved, not copied. */
function renamed(range: JsonObject): JsonObject {
  const { start, end, ...rest } = range;
  return jsonObject({ ...rest, startTime: start, endTime: end });
}
