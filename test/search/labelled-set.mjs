/**
 * The labelled set of the tool search: tools, and queries as people and agents phrase tasks, with the tools that do them. Ranking is tuned
 * on the part `tune`, selected by a hash of the query, and judged by `held-out` and by `fresh`: queries that were written after
 * everything was tuned and that did not lead to changes.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { distractors } from './distractors.mjs';

const read = (name) => JSON.parse(readFileSync(new URL(`../data/tool-search/${name}`, import.meta.url), 'utf8'));

/** Queries with accepted tools, in three parts. */
export const queries = [
  ...read('queries.json').map(({ query, accept }) => ({
    query,
    accept,
    part: createHash('sha256').update(query).digest()[0] % 2 === 0 ? 'held-out' : 'tune',
  })),
  ...read('fresh-queries.json').map((query) => ({ ...query, part: 'fresh' })),
];

/**
 * Tools as the registry has them.
 *
 * @param builtin definitions of the 16 builtin tools; with the catalogue of other vendors' tools they are 45
 * @param {number} count how many in all; the rest are distractors, at most 10,080
 */
export function labelledTools(builtin, count) {
  const others = read('catalogue.json');
  return [...builtin, ...[...others, ...distractors(count - builtin.length - others.length)].map(toDefinition)]
    .map((tool) => ({ ...tool, revision: '1', available: true }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function toDefinition({ name, category, tags, description, parameters }) {
  const properties = Object.fromEntries(
    Object.entries(parameters).map(([key, text]) => [key, { type: 'string', description: text }]),
  );
  return {
    name,
    version: '1.0.0',
    category,
    tags,
    description,
    input_schema: { type: 'object', properties },
    source: { kind: 'mcp', name: tags[0] },
    binding: {
      kind: 'mcp',
      server: tags[0],
      transport: 'streamable-http',
      url: 'https://tools.example/mcp',
      remoteName: name,
    },
  };
}

/**
 * How well a ranking finds the accepted tools.
 *
 * @param {(query: string, limit: number) => readonly { name: string }[]} rank
 * @param {string} part of the queries
 * @returns the share of queries with first (first five) tools that have an accepted one, and the mean reciprocal rank within twenty
 */
export function figures(rank, part) {
  const judged = queries.filter((query) => query.part === part);
  let [hit1, hit5, reciprocal] = [0, 0, 0];
  for (const { query, accept } of judged) {
    const at = rank(query, 20).findIndex(({ name }) => accept.includes(name));
    if (at === 0) hit1 += 1;
    if (at >= 0 && at < 5) hit5 += 1;
    if (at >= 0) reciprocal += 1 / (at + 1);
  }
  const share = (sum) => Number((sum / judged.length).toFixed(3));
  return { queries: judged.length, hit1: share(hit1), hit5: share(hit5), mrr: share(reciprocal) };
}
