/** How often the search finds the right tool, on the labelled set of test/search. Figures: docs/tool-search.md. */
import { MANIFEST, toToolDefinition } from '@toolfleet/builtin-tools';
import { ToolRanker } from '../libs/catalog/src/search/rank-tools.js';
import { describe, expect, it } from 'vitest';
import { figures, labelledTools, queries } from './search/labelled-set.mjs';

const SOURCE = { kind: 'builtin', name: 'builtin.compute' } as const;
const builtin = MANIFEST.map((tool) => toToolDefinition(tool, SOURCE, { rateLimits: {}, costsMicroUsd: {} }));

describe('the labelled set', () => {
  it('accepts only tools of the catalogue, and has no duplicate query', () => {
    const names = new Set(labelledTools(builtin, 45).map(({ name }) => name));
    expect(names.size).toBe(45);
    expect(queries.flatMap(({ accept }) => accept).filter((name) => !names.has(name))).toEqual([]);
    expect(new Set(queries.map(({ query }) => query)).size).toBe(queries.length);
    expect(queries.length).toBeGreaterThan(250);
    expect(new Set(labelledTools(builtin, 10_000).map(({ name }) => name)).size).toBe(10_000);
  });
});

// A margin of about two queries below the measured value, so that a new word may move one.
describe.each([
  [45, 'held-out', 0.77, 0.96],
  [45, 'fresh', 0.58, 0.78],
  [535, 'held-out', 0.67, 0.91],
  [535, 'fresh', 0.55, 0.68],
])('search among %i tools, queries %s', (count, part, hit1, hit5) => {
  it(`has hit@1 of ${hit1} and hit@5 of ${hit5} at least`, () => {
    const ranker = new ToolRanker(labelledTools(builtin, count));
    const found = figures((query, limit) => ranker.rank(query, limit), part);
    expect(found.hit1).toBeGreaterThanOrEqual(hit1);
    expect(found.hit5).toBeGreaterThanOrEqual(hit5);
  });
});
