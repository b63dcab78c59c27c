/** An endpoint with the API of `/v1/embeddings` on loopback, whose vectors tell a few meanings apart, in English and in German. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Words of one meaning; each is a direction of the vectors. */
const MEANINGS = [/parcel|paket/g, /cost|porto/g, /expression|rechn/g, /note|notiz/g, /photo|bild/g, /weather|wetter/g];

/** What a request asked for. */
interface EmbeddingsRequest {
  authorization: string | undefined;
  body: { model: string; input: string[]; dimensions?: number };
}

export interface EmbeddingsEndpoint {
  readonly url: string;
  /** Requests so far, oldest first. */
  readonly requests: readonly EmbeddingsRequest[];
  /** Whether requests get HTTP 503 from now on. */
  fail(fails: boolean): void;
  stop(): Promise<void>;
}

/** Starts the endpoint on a free port. */
export async function startEmbeddingsEndpoint(): Promise<EmbeddingsEndpoint> {
  const requests: EmbeddingsRequest[] = [];
  let fails = false;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = JSON.parse(Buffer.concat(chunks).toString()) as EmbeddingsRequest['body'];
    requests.push({ authorization: request.headers.authorization, body });
    const data = body.input.map((text, index) => ({ object: 'embedding', index, embedding: toVector(text) }));
    response.writeHead(fails ? 503 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(fails ? { error: { message: 'busy' } } : { object: 'list', data, model: body.model }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/embeddings`,
    requests,
    fail: (now) => void (fails = now),
    stop: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** How often a text has words of each meaning, and a small constant, so that every text has a direction. */
const toVector = (text: string): number[] => [
  ...MEANINGS.map((words) => text.toLowerCase().match(words)?.length ?? 0),
  0.1,
];
