import type { Milliseconds } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { Clock } from '@toolfleet/resilience';
import { LRUCache } from 'lru-cache';
import type { Embeddings } from './embeddings.js';
import { VectorList } from './vector-list.js';

/** Tools of one request to the endpoint. */
const BATCH = 64;
/** Time for a batch of tools. No search waits for it. */
const BATCH_MS = 30_000;
/** Time without requests after one failed. */
const COOLDOWN_MS = 15_000;
/** Nearest tools that a ranking uses. */
const NEAREST = 50;
const MAX_QUERIES = 1_000;
const MAX_TEXT_CHARS = 2_000;
/** Vectors kept, of tools of all tenants, and longest list that is searched by meaning: 10,000 vectors of 1,536 numbers take 60 MB. */
const MAX_TOOLS = 20_000;

interface VectorDeps {
  embeddings: Pick<Embeddings, 'embed'>;
  /** Longest a search waits for the vector of its task. */
  timeoutMs: Milliseconds;
  clock: Clock;
  /** Called when the endpoint fails, at most once per cooldown. */
  onFailure(error: unknown): void;
}

/**
 * Finds tools by the meaning of a task, with vectors of an endpoint. Tools are embedded once per description, in the background, in
 * batches; tasks when they are searched for. Until all tools have vectors, and while the endpoint is unavailable or slow, there is no
 * answer and the search uses words only.
 */
export class ToolVectors {
  readonly #tools = new LRUCache<string, Float32Array>({ max: MAX_TOOLS });
  /** The vectors of complete lists, in their order. Lists are replaced and never changed. */
  readonly #lists = new WeakMap<readonly RegisteredTool[], VectorList>();
  readonly #tasks = new LRUCache<string, Float32Array>({ max: MAX_QUERIES });
  #filling = false;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(private readonly deps: VectorDeps) {}

  /** Names of the nearest tools, nearest first; none while only words are available. Never rejects. */
  async nearest(tools: readonly RegisteredTool[], task: string): Promise<string[]> {
    const vectors = this.#vectors(tools);
    const wanted = vectors && (await this.#task(task.slice(0, MAX_TEXT_CHARS).trim()));
    if (!wanted) return [];
    return vectors.nearest(wanted, NEAREST).map((position) => tools[position]!.name);
  }

  /** The vectors of a list; undefined until all are known; requests those that are missing. */
  #vectors(tools: readonly RegisteredTool[]): VectorList | undefined {
    let vectors = this.#lists.get(tools);
    if (vectors || tools.length === 0 || tools.length > MAX_TOOLS) return vectors;
    const missing = tools.filter((tool) => !this.#tools.has(toText(tool)));
    if (missing.length > 0) {
      void this.#fill(missing);
      return undefined;
    }
    vectors = new VectorList(tools.map((tool) => this.#tools.get(toText(tool))!));
    this.#lists.set(tools, vectors);
    return vectors;
  }

  async #task(task: string): Promise<Float32Array | undefined> {
    const known = this.#tasks.get(task);
    if (known || task === '') return known;
    const [vector] = (await this.#embed([task], this.deps.timeoutMs)) ?? [];
    if (vector) this.#tasks.set(task, vector);
    return vector;
  }

  async #fill(missing: readonly RegisteredTool[]): Promise<void> {
    if (this.#filling) return;
    this.#filling = true;
    try {
      for (let start = 0; start < missing.length; start += BATCH) {
        const batch = missing.slice(start, start + BATCH);
        const vectors = await this.#embed(batch.map(toText), BATCH_MS);
        if (!vectors) return; // a later search goes on
        for (const [index, tool] of batch.entries()) this.#tools.set(toText(tool), vectors[index]!);
      }
    } finally {
      this.#filling = false;
    }
  }

  async #embed(texts: readonly string[], timeoutMs: Milliseconds): Promise<Float32Array[] | undefined> {
    const { clock, embeddings, onFailure } = this.deps;
    if (clock.monotonic() < this.#pausedUntil) return undefined;
    try {
      return await embeddings.embed(texts, timeoutMs);
    } catch (error) {
      this.#pausedUntil = clock.monotonic() + COOLDOWN_MS;
      onFailure(error);
      return undefined;
    }
  }
}

/** What is embedded of a tool, and the key of its vector: toolsets may describe one revision in different words. */
function toText({ name, description, tags }: RegisteredTool): string {
  const words = [`${name.replace(/[_-]/g, ' ')}: ${description}`, ...(tags ?? [])];
  return words.join(' ').slice(0, MAX_TEXT_CHARS);
}
