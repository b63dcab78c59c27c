import { Controller, Get, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { Public } from '../../auth/auth.guard.js';

/** Whether this gateway can take calls; asked by load balancers on the public port. */
export abstract class Readiness {
  abstract ready(): Promise<boolean>;
  /** Aborted when the process begins to drain: open event streams end, their clients resume elsewhere. */
  abstract readonly draining: AbortSignal;
}

/** The only two unauthenticated facts on the public port; details are on the admin port. */
@Public()
@Controller()
export class HealthController {
  constructor(private readonly readiness: Readiness) {}

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
