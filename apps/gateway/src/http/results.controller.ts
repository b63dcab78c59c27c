import { Controller, Res } from '@nestjs/common';
import type { Principal } from '@toolfleet/contracts';
import type { RouteInput } from '@toolfleet/contracts/resources';
import type { FastifyReply } from 'fastify';
import { Caller } from '../server/guards.js';
import { ResultReader } from '@toolfleet/results';
import { Input, Serves } from '../server/routes.js';
import { disconnectSignal } from './http-call.js';

/** Kept results in parts. */
@Controller()
export class ResultsController {
  constructor(private readonly results: ResultReader) {}

  @Serves('GET /api/v1/results/{handle}')
  async part(
    @Caller() principal: Principal,
    @Input() { path: { handle }, query }: RouteInput<'GET /api/v1/results/{handle}'>,
    @Res({ passthrough: true }) reply: FastifyReply,
  ) {
    const { session_id: id, ...part } = query;
    const session = id === undefined ? undefined : { id, userId: principal.userId };
    return this.results.read({ principal, session, signal: disconnectSignal(reply) }, handle, part);
  }
}
