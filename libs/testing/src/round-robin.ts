/** A load balancer of the tests: requests go to the targets in turn, and it is known what is under way where. */
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

/** A running balancer. It never tries a request twice, and passes a broken connection on as one. */
export class RoundRobin {
  readonly #ports: number[];
  readonly #underWay = new Map<number, Set<{ body: string }>>();
  #turn = 0;

  constructor(
    /** Origin. */
    readonly url: string,
    ports: readonly number[],
    readonly stop: () => Promise<void>,
  ) {
    this.#ports = [...ports];
    for (const port of ports) this.#underWay.set(port, new Set());
  }

  /** Bodies of the requests a target has in work. */
  underWay(port: number): string[] {
    return [...(this.#underWay.get(port) ?? [])].map(({ body }) => body);
  }

  /** The target gets nothing more; what it has in work stays with it. */
  takeOut(port: number): void {
    this.#ports.splice(this.#ports.indexOf(port), 1);
  }

  /** Passes one request on. */
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
