import { Controller, Get, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { VERSION } from '@toolfleet/service';
import { Public } from '../auth/auth.guard.js';
import { apiDocument } from './api-document.js';

const API = apiDocument(VERSION);

/** Whether this gateway can take calls; asked by load balancers on the public port. */
export abstract class Readiness {
  abstract ready(): Promise<boolean>;
  /** Aborted when the process begins to drain: open event streams end, their clients resume elsewhere. */
  abstract readonly draining: AbortSignal;
}

/** What the public port tells without a credential: two facts for load balancers, and its own description. */
@Public()
@Controller()
export class HealthController {
  constructor(private readonly readiness: Readiness) {}

  @Get('openapi.json')
  description() {
    return API;
  }

  @Get('health')
  health() {
    return { status: 'ok' };
  }

  @Get('readiness')
  async isReady(@Res({ passthrough: true }) reply: FastifyReply) {
    const ready = await this.readiness.ready();
    void reply.status(ready ? 200 : 503);
    return { status: ready ? 'ready' : 'not ready' };
  }
}
