import { isJsonObject, type Milliseconds } from '@toolfleet/contracts';
import { EgressClient } from '@toolfleet/egress';
import type { Clock } from '@toolfleet/resilience';

interface EmbeddingsSettings {
  /** Address of the endpoint, such as `https://api.openai.com/v1/embeddings`; the client can reach no other origin. */
  url: string;
  apiKey: string | undefined;
  model: string;
  /** Length of the vectors, for models that let one choose. */
  dimensions: number | undefined;
}

const MAX_RESPONSE_BYTES = 32 * 1024 * 1024;

/** Turns texts into vectors, at an endpoint with the API of OpenAI's `/v1/embeddings`, through the egress guard. */
export class Embeddings {
  readonly #client: EgressClient;

  constructor(
    private readonly settings: EmbeddingsSettings,
    clock: Clock,
  ) {
    this.#client = new EgressClient({ allowlist: [], allowedEndpoints: [new URL(settings.url).origin], clock });
  }

  /**
   * One vector of length 1 per text, in order.
   *
   * @throws Error if the endpoint is too slow, refuses, or answers with anything else
   */
  async embed(texts: readonly string[], timeoutMs: Milliseconds): Promise<Float32Array[]> {
    const { url, apiKey, model, dimensions } = this.settings;
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    if (apiKey !== undefined) headers.authorization = `Bearer ${apiKey}`;
    const response = await this.#client.request({
      url,
      method: 'POST',
      headers,
      body: JSON.stringify({ model, input: texts, dimensions, encoding_format: 'float' }),
      followRedirects: false,
      maxBytes: MAX_RESPONSE_BYTES,
      timeouts: { headersMs: timeoutMs, bodyIdleMs: timeoutMs, totalMs: timeoutMs },
    });
    const text = await response.body.text();
    if (response.status !== 200) throw new Error(`the embeddings endpoint answered with HTTP ${response.status}`);
    return readVectors(JSON.parse(text), texts.length);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

function readVectors(answer: unknown, count: number): Float32Array[] {
  const data = isJsonObject(answer) && Array.isArray(answer.data) ? answer.data : [];
  const vectors = Array.from<Float32Array | undefined>({ length: count });
  for (const [position, item] of data.entries()) {
    if (!isJsonObject(item) || !Array.isArray(item.embedding)) continue;
    vectors[typeof item.index === 'number' ? item.index : position] = normalise(item.embedding);
  }
  const length = vectors[0]?.length;
  if (
    data.length !== count ||
    !vectors.every((vector) => vector !== undefined && vector.length === length && length > 0)
  )
    throw new Error('the embeddings endpoint did not answer with one vector per text');
  return vectors as Float32Array[];
}

/** The vector with length 1; undefined when it has no direction or is not a vector of numbers. */
function normalise(embedding: readonly unknown[]): Float32Array | undefined {
  const numbers = embedding.map(Number);
  const length = Math.hypot(...numbers);
  return Number.isFinite(length) && length > 0 ? Float32Array.from(numbers, (value) => value / length) : undefined;
}
