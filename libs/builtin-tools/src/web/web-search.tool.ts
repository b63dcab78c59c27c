import { ToolError } from '@toolfleet/contracts';
import { defaulted, integer, record, text } from '@toolfleet/contracts/json-schema';
import { defineTool, ok } from '../builtin-tool.js';

const MAX_QUERY = 1_000;

/** `web_search`: schema, version, price and category are those published by Shannon. */
export const webSearch = defineTool({
  name: 'web_search',
  version: '1.0',
  description: 'Search the web for current information',
  category: 'search',
  tags: ['crawler', 'web'],
  toolset: 'web',
  inputSchema: record({
    query: text('Search query'),
    max_results: defaulted(integer('Maximum number of results'), 10),
  }),
  inputExamples: [{ query: 'latest AI news', max_results: 5 }],
  annotations: { readOnlyHint: true, destructiveHint: false, openWorldHint: true },
  idempotent: true,
  timeoutSeconds: 30,
  rateLimit: 120,
  costMicroUsd: 4_000,
  needs: ['search'],
  async handler({ query, max_results: asked }, run) {
    const { name, maxResults } = run.search;
    if (!Number.isInteger(asked) || asked < 1 || asked > maxResults)
      throw new ToolError('ARGUMENTS_INVALID', {
        message: `max_results must be an integer from 1 to ${maxResults} with the provider ${name}, not ${asked}`,
        details: { argument: 'max_results', minimum: 1, maximum: maxResults },
      });
    const results = await run.search.search(query.slice(0, MAX_QUERY), asked, run.signal);
    const lines = results.map((result, index) => `${index + 1}. ${result.title} (${result.url})\n   ${result.snippet}`);
    const shown = [`Found ${results.length} results for '${query}'`, ...lines].join('\n');
    return ok({ results: results.map((result) => ({ ...result })) }, shown, {
      metadata: { source: name, untrusted: true },
    });
  },
});
