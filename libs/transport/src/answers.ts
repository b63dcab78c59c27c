import { Controller } from '@nestjs/common';
import { anything, dictionary, maybe, object, record, text } from '@toolfleet/contracts/json-schema';
import type { Answering, Route, RouteQuestion, OwnedKey } from '@toolfleet/contracts/resources';
import { apiSubject } from '@toolfleet/contracts/subjects';
import { Endpoint, type EndpointOptions } from './endpoint.js';

/**
 * Class decorator: a controller whose methods answer the routes of a table that name an owner, each under the id of its operation. The
 * compiler requires all of them, with the answers of their rows.
 *
 * ```ts
 * @Answers(WEBHOOK_ROUTES)
 * class WebhookRoutes {
 *   getWebhook({ principal, path }: Asked<'getWebhook'>) {
 *     return this.endpoints.one({ tenant_id: principal.tenantId, id: path.id });
 *   }
 * ```
 *
 * Questions come from gateways, which have admitted the caller. They are checked by the row once more, because a gateway may be of another
 * release. They share a limit in flight (`POOLS.management`), so that slow ones hold nothing that calls need.
 */
export function Answers<const R extends Readonly<Record<string, Route>>>(
  rows: R,
  options: Pick<EndpointOptions, 'unavailable'> = {},
) {
  return (service: new (...args: never[]) => Answering<R>): void => {
    Controller()(service);
    const prototype = service.prototype as Record<string, (asked: RouteQuestion<OwnedKey>) => unknown>;
    for (const route of Object.values(rows)) {
      if (route.owner === undefined) continue;
      const method = Object.getOwnPropertyDescriptor(prototype, route.id)!;
      const served = { ...options, schema: questionSchema(route), management: true };
      Endpoint(apiSubject(route.owner, route.id), served)(prototype, route.id, method);
    }
  };
}

const questionSchema = ({ access, query, body, readsBody }: Route) =>
  record({
    principal: access === 'registrar' ? maybe(object()) : object(),
    path: dictionary(text()),
    query: query ?? maybe(anything()),
    body: readsBody ? maybe(anything()) : (body ?? maybe(anything())),
  });
