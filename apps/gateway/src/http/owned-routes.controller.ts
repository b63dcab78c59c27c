/** Routes that another service answers: the gateway admits, reads and audits their requests like requests of its own, and asks the owner. */
import { Controller, Req } from '@nestjs/common';
import { RegisterAuth } from '@toolfleet/access';
import { isToolError, ToolError } from '@toolfleet/contracts';
import { ROUTES, type OwnedKey, type Route, type RouteAnswer, type RouteOwner } from '@toolfleet/contracts/resources';
import { apiSubject } from '@toolfleet/contracts/subjects';
import { VERSION } from '@toolfleet/service';
import { NatsClient } from '@toolfleet/transport';
import type { HttpRequest } from './http-call.js';
import { readInput, Serves } from '../server/routes.js';
import { SignIn } from './sign-in.controller.js';

const ANSWER_SECONDS = 10;
const ROWS: Readonly<Record<OwnedKey, Route>> = ROUTES;

/** Has a method for each row of `ROUTES` with an owner: see below. */
@Controller()
export class OwnedRoutesController {
  constructor(
    private readonly nats: NatsClient,
    private readonly registrars: RegisterAuth,
    private readonly signIn: SignIn,
  ) {}

  /** @throws ToolError of the owner; SERVICE_UNAVAILABLE if it does not run, or does not have the route yet */
  async ask<K extends OwnedKey>(key: K, http: HttpRequest): Promise<RouteAnswer<K>> {
    const { id, owner, access, seconds = ANSWER_SECONDS, withoutSignIn } = ROWS[key];
    const principal = access === 'registrar' ? await this.registrars.admit(http) : http.principal;
    const question = { principal, ...readInput(key, http) };
    if (withoutSignIn !== undefined && !this.signIn.offer.available) return withoutSignIn as RouteAnswer<K>;
    try {
      return await this.nats.request(apiSubject(owner!, id), question, { timeoutMs: seconds * 1_000 });
    } catch (error) {
      throw isToolError(error) && error.code === 'EXECUTOR_UNAVAILABLE' ? unanswered(owner!, id, error) : error;
    }
  }
}

const OWNED = (Object.keys(ROUTES) as OwnedKey[]).filter((key) => 'owner' in ROUTES[key]);
for (const key of OWNED) {
  const { id } = ROUTES[key];
  const method = {
    configurable: true,
    value(this: OwnedRoutesController, http: HttpRequest) {
      return this.ask(key, http);
    },
  };
  Object.defineProperty(OwnedRoutesController.prototype, id, method);
  Serves(key)(OwnedRoutesController.prototype, id, method);
  Req()(OwnedRoutesController.prototype, id, 0);
}

function unanswered(owner: RouteOwner, operation: string, cause: ToolError): ToolError {
  return new ToolError('SERVICE_UNAVAILABLE', {
    message: `No instance of the service ${owner} answers ${operation}: it is unavailable, or runs a release before ${VERSION}; retry later`,
    cause,
  });
}
