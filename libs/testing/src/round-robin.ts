/** A round-robin load balancer for tests that knows which requests are in flight at which target. */
import { createServer, request as onwardRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Starts on a free loopback port. */
export async function startRoundRobin(ports: readonly number[]): Promise<RoundRobin> {
  const proxy = createServer((incoming, outgoing) => void robin.serve(incoming, outgoing));
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const robin = new RoundRobin(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, ports, async () => {
    proxy.closeAllConnections();
    await new Promise((resolve) => proxy.close(resolve));
  });
  return robin;
}

/** A running load balancer. It never retries a request, and passes broken connections on to the client. */
export class RoundRobin {
  readonly #ports: number[];
  readonly #underWay = new Map<number, Set<{ body: string }>>();
  #turn = 0;

  constructor(
    /** Origin of the load balancer. */
    readonly url: string,
    ports: readonly number[],
    readonly stop: () => Promise<void>,
  ) {
    this.#ports = [...ports];
    for (const port of ports) this.#underWay.set(port, new Set());
  }

  /** Bodies of the requests in flight at a target. */
  underWay(port: number): string[] {
    return [...(this.#underWay.get(port) ?? [])].map(({ body }) => body);
  }

  /** Removes a target. Its requests in flight continue. */
  takeOut(port: number): void {
    this.#ports.splice(this.#ports.indexOf(port), 1);
  }

  /** Forwards one request. */
  async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const port = this.#ports[(this.#turn += 1) % this.#ports.length]!;
    const request = { body: body.toString() };
    this.#underWay.get(port)!.add(request);
    const { method, url: path } = incoming;
    const headers = { ...incoming.headers, host: `127.0.0.1:${port}` };
    const onward = onwardRequest({ port, host: '127.0.0.1', path, method, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.on('error', () => outgoing.destroy());
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    outgoing.on('close', () => {
      this.#underWay.get(port)!.delete(request);
      onward.destroy();
    });
    onward.end(body);
  }
}
