import type { OutgoingHttpHeaders } from 'node:http';
import type { CanActivate, INestApplicationContext } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { takeOverReply, writeJson } from '../server/connections.js';
import type { ErrorFilter } from '../server/error.filter.js';
import type { Mounted } from '../server/gateway-server.js';
import { jsonWriter } from '../server/json-writer.js';
import { readInput } from '../server/routes.js';
import type { HttpRequest } from './http-call.js';
import { ToolsController } from './tools.controller.js';

const ROUTE = 'POST /api/v1/tools/{name}/execute';

/**
 * Serves the route that carries most calls by the same controller, guards and filter, but without the layers of Nest between them: its hooks,
 * pipes, injected parameters and observables cost a call as much as its limits and policy. Nest serves the route for names in an unusual form.
 */
export class CallRoute implements Mounted {
  /** @param guards those of all routes, in their order; they let a request pass or throw */
  constructor(
    private readonly guards: readonly CanActivate[],
    private readonly errors: ErrorFilter,
  ) {}

  async mountCalls(fastify: FastifyInstance, app: INestApplicationContext): Promise<void> {
    const controller = app.get(ToolsController);
    fastify.post('/api/v1/tools/:name/execute', (request: HttpRequest, reply) =>
      this.#serve(controller, request, reply),
    );
  }

  async #serve(controller: ToolsController, request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const context = new ExecutionContextHost([request, reply], ToolsController, ToolsController.prototype.execute);
    try {
      for (const guard of this.guards) await guard.canActivate(context);
      const json = jsonWriter(request)(await controller.execute(readInput(ROUTE, request), request, reply));
      const headers = reply.getHeaders() as OutgoingHttpHeaders;
      headers['content-type'] = 'application/json; charset=utf-8';
      await takeOverReply(reply, (out) => writeJson(out, reply.statusCode, json, headers));
    } catch (error) {
      await this.errors.render(error, request, reply);
    }
    return reply;
  }
}
