import type { IncomingMessage } from 'node:http';
import type { JsonObject } from '@toolfleet/contracts';
import { describe, expect, it } from 'vitest';
import { runTool } from '../../spec/run-tool.fixture.js';
import { egress, catchToolError, html, origin, routes, serveSite } from '../../spec/site.fixture.js';
import { webSearch } from './web-search.tool.js';
import {
  HttpSearchProvider,
  LocalSearchProvider,
  type SearchProvider,
  type SearchProviderName,
} from './search-provider.js';

serveSite();

describe('web_search', () => {
  const search = async (args: JsonObject, provider: SearchProvider = new LocalSearchProvider()) =>
    runTool(webSearch, args, { services: { search: provider } });

  it('has the published shape', async () => {
    expect(webSearch.metadata).toMatchObject({
      version: '1.0',
      category: 'search',
      timeoutSeconds: 30,
      costMicroUsd: 4_000,
      description: 'Search the web for current information',
    });
    expect(webSearch.metadata.inputSchema).toEqual({
      type: 'object',
      properties: {
        query: { type: 'string', description: 'Search query' },
        max_results: { type: 'integer', description: 'Maximum number of results', default: 10 },
      },
      required: ['query'],
    });
    const { output, text, metadata } = await search({ query: 'latest AI news', max_results: 5 });
    expect((output as { results: JsonObject[] }).results).toHaveLength(5);
    expect(Object.keys((output as { results: JsonObject[] }).results[0] ?? {})).toEqual(['title', 'url', 'snippet']);
    expect(text.split('\n')[0]).toBe("Found 5 results for 'latest AI news'");
    expect(metadata).toMatchObject({ source: 'local' });
  });

  it('is deterministic and returns ten results by default', async () => {
    expect(await search({ query: 'x' })).toEqual(await search({ query: 'x' }));
    expect(((await search({ query: 'x' })).output as { results: [] }).results).toHaveLength(10);
  });

  it.each([0, -3, 21])('refuses max_results %i, which the provider cannot return', async (asked) => {
    expect(await catchToolError(search({ query: 'x', max_results: asked }))).toMatchObject({
      code: 'ARGUMENTS_INVALID',
      message: `max_results must be an integer from 1 to 20 with the provider local, not ${asked}`,
    });
  });

  it('returns as many results as the provider can', async () => {
    expect(((await search({ query: 'x', max_results: 20 })).output as { results: [] }).results).toHaveLength(20);
  });

  it.each<[Exclude<SearchProviderName, 'local'>, string, string, JsonObject]>([
    [
      'searchapi',
      '/api/v1/search?engine=google&q=a+b&num=2',
      'authorization',
      {
        organic_results: [
          { title: 'T', link: 'https://a.example/', snippet: 'S', date: '1 day ago' },
          { title: 'bad', link: 'javascript:x' },
        ],
      },
    ],
    [
      'brave',
      '/res/v1/web/search?q=a+b&count=2',
      'x-subscription-token',
      { web: { results: [{ title: 'T', url: 'https://a.example/', description: '<b>S</b>', age: '1 day ago' }] } },
    ],
    [
      'searxng',
      '/search?q=a+b&format=json',
      'authorization',
      { results: [{ title: 'T', url: 'https://a.example/', content: 'S', publishedDate: '1 day ago' }] },
    ],
  ])('speaks to %s', async (name, path, header, answer) => {
    let sent: IncomingMessage | undefined;
    routes.set(new URL(path, origin).pathname, (request, response) => {
      sent = request;
      html(JSON.stringify(answer), 'application/json')(request, response);
    });
    const provider = new HttpSearchProvider(name, origin, 'the-key', egress);
    expect((await search({ query: 'a b', max_results: 2 }, provider)).output).toEqual({
      results: [{ title: 'T', url: 'https://a.example/', snippet: 'S', published: '1 day ago' }],
    });
    expect(sent?.url).toBe(path);
    expect(String(sent?.headers[header])).toContain('the-key');
  });

  it('reports a missing key, a refusal or an invalid response, and never reveals the key', async () => {
    expect(
      await catchToolError(search({ query: 'x' }, new HttpSearchProvider('brave', origin, '', egress))),
    ).toMatchObject({
      code: 'AUTH_NOT_CONFIGURED',
    });
    routes.set('/search', (_request, response) => response.writeHead(403).end('bad key the-key'));
    const refused = await catchToolError(
      search({ query: 'x' }, new HttpSearchProvider('searxng', origin, 'the-key', egress)),
    );
    expect(refused).toMatchObject({ code: 'UPSTREAM_ERROR', message: 'searxng answered HTTP 403' });
    routes.set('/search', html('<html>'));
    expect(
      (await catchToolError(search({ query: 'x' }, new HttpSearchProvider('searxng', origin, '', egress)))).message,
    ).toMatch(/JSON/);
  });
});
