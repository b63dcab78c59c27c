import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';

/** A request as it arrived. */
interface Received {
  path: string;
  id: string;
  headers: IncomingHttpHeaders;
  body: string;
  at: number;
}

/** What a path answers: a status with headers, or nothing at all. */
type Answer = { status: number; headers?: Record<string, string> } | 'hang';

/** A receiver of events on a free port of this machine. */
export class WebhookReceiver {
  readonly received: Received[] = [];
  readonly answers = new Map<string, Answer>();

  private constructor(
    private readonly server: Server,
    readonly origin: string,
  ) {}

  static async start(): Promise<WebhookReceiver> {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const { url: path = '', headers } = request;
        const body = Buffer.concat(chunks).toString();
        receiver.received.push({ path, id: String(headers['webhook-id']), headers, body, at: Date.now() });
        const answer = receiver.answers.get(path) ?? { status: 204 };
        if (answer !== 'hang') response.writeHead(answer.status, answer.headers).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const receiver = new WebhookReceiver(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    return receiver;
  }

  /** What arrived at a path. */
  at(path: string): Received[] {
    return this.received.filter((one) => one.path === path);
  }

  /** The event of a request. @throws Error when the signature does not fit the secret */
  verified({ body, headers }: Received, secret: string): unknown {
    return new Webhook(secret).verify(body, headers as Record<string, string>);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
