import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Json } from '@toolfleet/contracts';
import type { ServiceFault } from '@toolfleet/contracts/fleet';
import type { Metrics } from '@toolfleet/telemetry';

/** Health of a service, for the admin server. */
interface HealthSource {
  /** All components have started. */
  started(): boolean;
  /** Whether the service can take work, and each component by name. */
  ready(): Promise<{ ready: boolean; parts: Record<string, boolean> }>;
  /** Faults in configuration and policies; does not make the service unready. */
  faults(): ServiceFault[];
}

/**
 * The operations port of a service. `/health/startup`: all components have started. `/health/ready`: brokers connected and
 * not draining, with faults in configuration and policies.
 * `/health/live`: the event loop runs; it checks no dependency, because that would turn an outage into a restart storm. `/metrics`:
 * Prometheus text format.
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
    // Idle connections of a scraper must not keep the process alive.
    this.#server.keepAliveTimeout = 5_000;
  }

  /** Listens and resolves with the port. @throws the error of the socket, such as EADDRINUSE */
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
        const status = ready ? 'ready' : 'not ready';
        return send(response, ready ? 200 : 503, { status, parts, faults: this.health.faults() });
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

/**
 * Tells the process that started this one where it listens, and its faults: `{ service, pid, admin_port, …facts }` as an IPC message.
 */
export class Announcer {
  readonly #facts: Record<string, Json>;

  constructor(service: string) {
    this.#facts = { service, pid: process.pid };
  }

  announce(facts: Record<string, Json>): void {
    Object.assign(this.#facts, facts);
    // The parent may have ended meanwhile; the event 'disconnect' handles that, so the error is ignored here.
    if (process.connected)
      process.send?.({ type: 'toolfleet.announce', ...this.#facts }, undefined, {}, () => undefined);
  }
}
