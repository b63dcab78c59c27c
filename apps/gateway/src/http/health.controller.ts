import { Controller, Headers, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import type { Clock } from '@toolfleet/resilience';
import { checkReady, VERSION, type LifecycleComponent } from '@toolfleet/service';
import { Serves } from '../server/routes.js';
import { apiDocument } from './api-document.js';

const API = apiDocument(VERSION);

/** Whether this gateway can take calls; load balancers ask on the public port. */
export class Readiness {
  /**
   * @param components required for readiness: the broker connections
   * @param draining aborted when the process begins to drain; open event streams end then, and clients resume elsewhere
   */
  constructor(
    private readonly components: readonly LifecycleComponent[],
    readonly draining: AbortSignal,
    private readonly clock: Clock,
  ) {}

  async ready(): Promise<boolean> {
    const state = { started: true, draining: this.draining.aborted, clock: this.clock };
    return (await checkReady(this.components, state)).ready;
  }
}

/** The served paths. */
const INDEX = {
  name: 'toolfleet',
  version: VERSION,
  api: '/api/v1/tools',
  openapi: '/openapi.json',
  mcp: '/mcp',
  console: '/console',
  readiness: '/readiness',
};

/** Answers of the public port without a credential: its index, health, readiness and the OpenAPI document. */
@Controller()
export class HealthController {
  constructor(private readonly readiness: Readiness) {}

  /** The index as JSON; a browser gets the console. */
  @Serves('GET /')
  index(@Headers('accept') accept: string | undefined, @Res({ passthrough: true }) reply: FastifyReply) {
    if (accept?.includes('text/html')) void reply.status(302).header('Location', INDEX.console);
    return INDEX;
  }

  @Serves('GET /openapi.json')
  description() {
    return API;
  }

  @Serves('GET /health')
  health() {
    return { status: 'ok' };
  }

  @Serves('GET /readiness')
  async isReady(@Res({ passthrough: true }) reply: FastifyReply) {
    const ready = await this.readiness.ready();
    void reply.status(ready ? 200 : 503);
    return { status: ready ? 'ready' : 'not ready' };
  }
}
