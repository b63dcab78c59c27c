import { Controller, Headers, Res } from '@nestjs/common';
import { CATALOGUE, type ErrorEntry } from '@toolfleet/contracts';
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
  errors: '/docs/errors',
  mcp: '/mcp',
  console: '/console',
  readiness: '/readiness',
};

const ERROR_ROWS = Object.entries<ErrorEntry>(CATALOGUE).map(([code, { http, class: errorClass, retryable, hint }]) => {
  const cells = [`<code>${code}</code>`, http, errorClass, retryable ? 'yes' : 'no', hint];
  return `<tr id="${code.toLowerCase()}"><td>${cells.join('<td>')}`;
});
/** The catalogue of errors as a page. `doc_url` of an error leads to the row of its code. */
const ERROR_PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Errors of toolfleet</title>
<style>body{font:15px/1.5 system-ui;margin:2rem}td,th{padding:.3rem .6rem;text-align:left}:target{background:#ff08}</style>
<h1>Errors</h1><p>A call with status 200 ran and failed; any other was refused before its tool ran.
<table><tr><th>Code<th>HTTP<th>Class<th>Retryable<th>What to do
${ERROR_ROWS.join('\n')}
</table></html>`;

/** Answers of the public port without a credential: its index, health, readiness, the OpenAPI document and the catalogue of errors. */
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

  @Serves('GET /docs/errors')
  errors(@Res({ passthrough: true }) reply: FastifyReply) {
    void reply.type('text/html').header('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'");
    return ERROR_PAGE;
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
