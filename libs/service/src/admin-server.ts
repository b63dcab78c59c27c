import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Metrics } from '@toolfleet/telemetry';

/** Health of a service as the admin server shows it. */
export interface HealthSource {
  /** All parts have started once. */
  started(): boolean;
  /** Parts that cannot take work now, and whether the service is draining. */
  ready(): Promise<{ ready: boolean; parts: Record<string, boolean> }>;
}

/**
 * The admin port of a service. `/health/startup`: configuration good, first connects done.
 * `/health/ready`: brokers connected and not draining. `/health/live`: the event loop turns, nothing else, because a
 * liveness check on a dependency turns its outage into a restart storm. `/metrics`: Prometheus text.
 */
export class AdminServer {
  readonly #server: Server;

  constructor(
    private readonly health: HealthSource,
    private readonly metrics: Metrics,
  ) {
    this.#server = createServer((request, response) => {
      if (request.method !== 'GET' && request.method !== 'HEAD') return send(response, 405, { error: 'GET only' });
      this.#answer(request.url?.split('?')[0] ?? '', response).catch((error: unknown) => {
        send(response, 500, { error: error instanceof Error ? error.message : String(error) });
      });
    });
    // A scraper that keeps connections open must not keep the process alive.
    this.#server.keepAliveTimeout = 5_000;
  }

  /** Listens and returns the port taken. */
  listen(host: string, port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** Stops listening and closes open connections. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #answer(path: string, response: ServerResponse): Promise<void> {
    switch (path) {
      case '/health/live':
        return send(response, 200, { status: 'live' });
      case '/health/startup':
        return this.health.started()
          ? send(response, 200, { status: 'started' })
          : send(response, 503, { status: 'starting' });
      case '/health/ready': {
        const { ready, parts } = await this.health.ready();
        return send(response, ready ? 200 : 503, { status: ready ? 'ready' : 'not ready', parts });
      }
      case '/metrics':
        response.writeHead(200, { 'content-type': this.metrics.registry.contentType });
        response.end(await this.metrics.scrape());
        return;
      default:
        return send(response, 404, { error: 'Not found' });
    }
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  if (response.headersSent) return void response.end();
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(text);
}
