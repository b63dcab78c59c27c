import { isToolError, type CallProgress, type JsonObject } from '@toolfleet/contracts';
import { EgressClient, Resolver } from '@toolfleet/egress';
import { SystemClock } from '@toolfleet/resilience';
import { readTestData, type SsrfVector } from '@toolfleet/testing';
import { afterAll, describe, expect, it } from 'vitest';
import { BoundedWork } from '../bounded/bounded-work.js';
import { runTool } from '../../spec/run-tool.fixture.js';
import { crawlBatch, fetchPage } from './fetch-page.tool.js';
import { PageReader } from './page-reader.js';
import { ARTICLE_PAGES, MAIN_TEXT, NOISE_TEXT, OTHER_PAGES } from '../../spec/pages.fixture.js';
import { Robots } from './robots.js';
import {
  egress,
  catchToolError,
  html,
  origin,
  routes,
  seen,
  smallPdf,
  type Handler,
  serveSite,
} from '../../spec/site.fixture.js';

serveSite();

const clock = new SystemClock();
const bounded = new BoundedWork(clock);
afterAll(() => bounded.close());
const reader = (withRobots = true, client = egress) =>
  new PageReader(client, bounded, withRobots ? new Robots(client, clock, bounded) : undefined, 1_500);
const fetchOne = async (args: JsonObject, pages = reader()) =>
  (await runTool(fetchPage, args, { services: { pages } })).output as JsonObject;
describe('fetch_page', () => {
  it.each(ARTICLE_PAGES)('finds the main text: %s', async (_name, page) => {
    routes.set('/page', html(page));
    const { text } = await fetchOne({ url: `${origin}/page` });
    const flat = String(text).replaceAll(/\s+/g, ' ');
    const found = MAIN_TEXT.filter((sentence) => flat.includes(sentence)).length / MAIN_TEXT.length;
    const noise = NOISE_TEXT.filter((one) => flat.includes(one));
    expect(found).toBe(1);
    expect(noise).toEqual([]);
  });

  it.each(OTHER_PAGES)('finds the text of other kinds of page: $name', async ({ page, main, noise }) => {
    routes.set('/page', html(page));
    const { text } = await fetchOne({ url: `${origin}/page` });
    const flat = String(text).replaceAll(/\s+/g, ' ');
    for (const one of main) expect(flat).toContain(one);
    for (const one of noise) expect(flat).not.toContain(one);
  });

  it('collects absolute links without duplicates', async () => {
    routes.set(
      '/page',
      html(
        '<base href="/deep/"><a href="x">X</a> <a href="x#part">again</a><a href="javascript:alert(1)">j</a><a href="mailto:a@b">m</a><a href="https://b.example/?q=1">B</a>',
      ),
    );
    expect((await fetchOne({ url: `${origin}/page#top`, extract_type: 'links' })).links).toEqual([
      { text: 'X', url: `${origin}/deep/x` },
      { text: 'B', url: 'https://b.example/?q=1' },
    ]);
  });

  it('returns the structure of a page', async () => {
    routes.set('/page', html(ARTICLE_PAGES[0]?.[1] ?? ''));
    expect(await fetchOne({ url: `${origin}/page`, extract_type: 'structured' })).toMatchObject({
      title: 'The harbour',
      headings: expect.arrayContaining([{ level: 1, text: 'The harbour' }]),
      metadata: { language: 'en', description: 'A history', published: '2026-03-01', canonical: `${origin}/harbour` },
      links: expect.arrayContaining([{ text: 'About', url: `${origin}/about` }]),
      text: expect.stringContaining('The harbour was rebuilt'),
      status: 200,
    });
  });

  it.each<[string, string, Buffer]>([
    ['header', 'text/html; charset=shift_jis', Buffer.from([0x93, 0xfa, 0x96, 0x7b])],
    [
      'meta',
      'text/html',
      Buffer.concat([Buffer.from('<meta charset="shift_jis"><p>'), Buffer.from([0x93, 0xfa, 0x96, 0x7b])]),
    ],
    ['BOM', 'text/html', Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('<p>日本', 'utf16le')])],
    ['none, UTF-8', 'text/html', Buffer.from('<p>日本')],
  ])('reads the charset from: %s', async (_name, type, bytes) => {
    routes.set('/page', (_request, response) => response.writeHead(200, { 'content-type': type }).end(bytes));
    expect((await fetchOne({ url: `${origin}/page` })).text).toContain('日本');
  });

  it('reads PDF, text and JSON', async () => {
    routes.set('/a.pdf', (_request, response) =>
      response.writeHead(200, { 'content-type': 'application/pdf' }).end(smallPdf('Hello from a PDF')),
    );
    routes.set('/a.json', html('{"a":1}', 'application/json'));
    expect(await fetchOne({ url: `${origin}/a.pdf` })).toMatchObject({ text: 'Hello from a PDF', pages: 1 });
    const long = smallPdf(...Array.from({ length: 203 }, (_, n) => `Page ${n + 1}`));
    routes.set('/long.pdf', (_request, response) =>
      response.writeHead(200, { 'content-type': 'application/pdf' }).end(long),
    );
    const { text, pages, pages_read: read } = await fetchOne({ url: `${origin}/long.pdf` });
    expect([pages, read, String(text).split('\n\n').at(-1)]).toEqual([203, 200, 'Page 200']);
    expect(await fetchOne({ url: `${origin}/a.json` })).toMatchObject({ text: '{"a":1}' });
    routes.set('/a.zip', html('PK', 'application/zip'));
    expect((await catchToolError(fetchOne({ url: `${origin}/a.zip` }))).message).toBe(
      'Cannot read content of type application/zip',
    );
  });

  it('follows redirects, reports the final URL and upstream errors', async () => {
    routes.set('/old', (_request, response) => response.writeHead(302, { location: '/new' }).end());
    routes.set('/new', html('<title>New</title><p>here'));
    expect(await fetchOne({ url: `${origin}/old` })).toMatchObject({ url: `${origin}/new`, title: 'New' });
    expect(await catchToolError(fetchOne({ url: `${origin}/none` }))).toMatchObject({
      code: 'UPSTREAM_ERROR',
      message: 'HTTP 404: Nothing here',
      // the address is the caller's: the calls of others must not suffer from it
      facts: { blame: 'caller' },
    });
    routes.set('/busy', (_request, response) => response.writeHead(429, { 'retry-after': '7' }).end());
    expect(await catchToolError(fetchOne({ url: `${origin}/busy` }))).toMatchObject({
      code: 'UPSTREAM_ERROR',
      retryAfterMs: 7_000,
    });
  });

  it('respects robots.txt, which it reads once per site, unless disabled', async () => {
    routes.set('/robots.txt', html('User-agent: *\nDisallow: /private', 'text/plain'));
    routes.set('/private/a', html('<p>a'));
    routes.set('/open', html('<p>b'));
    const pages = reader();
    expect((await catchToolError(fetchOne({ url: `${origin}/private/a` }, pages))).message).toMatch(
      /robots.txt of .* does not allow/,
    );
    expect(seen).toEqual(['/robots.txt']);
    await fetchOne({ url: `${origin}/open` }, pages);
    expect(seen).toEqual(['/robots.txt', '/open']);
    await fetchOne({ url: `${origin}/private/a` }, reader(false));
  });

  it('cuts long content and marks it as truncated', async () => {
    routes.set('/long', html('word '.repeat(5_000), 'text/plain'));
    expect(await fetchOne({ url: `${origin}/long`, max_characters: 1_000 })).toMatchObject({
      truncated: true,
      characters: 25_000,
    });
  });

  it.each<[string, string]>([
    ['deep nesting', '<div>'.repeat(60_000)],
    ['many elements', '<p>x</p>'.repeat(80_000)],
    ['unclosed attributes', '<a href="'.repeat(40_000)],
    ['nested tables', '<table><tr><td>'.repeat(5_000)],
    ['a wide table', `<table>${`<tr>${'<td>x'.repeat(2_000)}`.repeat(40)}</table>`],
    ['huge attribute', `<p title="${'x'.repeat(1_000_000)}">text`],
    ['many links', '<a href="/x">x</a>'.repeat(60_000)],
  ])('survives a hostile page: %s', async (_name, page) => {
    routes.set('/hostile', html(page));
    for (const what of ['text', 'structured']) {
      const outcome = await fetchOne({ url: `${origin}/hostile`, extract_type: what }).catch((error: unknown) => error);
      expect(outcome instanceof Error ? isToolError(outcome) : typeof outcome).toBe(
        outcome instanceof Error ? true : 'object',
      );
    }
  });

  it.each([
    'http://127.0.0.1:1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://[::1]/',
    'https://localhost/',
    'http://2130706433/',
    'https://10.0.0.1/',
    'https://metadata.google.internal/',
    'https://evil.example/',
  ])('refuses %s without asking anybody', async (url) => {
    expect((await catchToolError(fetchOne({ url }))).code).toBe('EGRESS_REFUSED');
    expect(seen).toEqual([]);
  });

  it.each(['ftp://a.example/', 'file:///etc/passwd', 'javascript:alert(1)', '//a.example', 'a.example'])(
    'refuses %s, which is not a web address',
    async (url) => {
      expect((await catchToolError(fetchOne({ url }))).message).toMatch(/Not a web address/);
    },
  );
});

describe('SSRF vectors through fetch_page and crawl_batch', () => {
  const { assumed_policy: policy, vectors } = readTestData<{
    assumed_policy: { allow: string[] };
    vectors: SsrfVector[];
  }>('ssrf-vectors.json');
  const blocked = vectors.filter((vector) => vector.expect === 'block' && vector.layer !== 'redirect');

  it.each(blocked.map((vector) => [vector.id, vector] as const))('%s reaches nothing', async (_id, vector) => {
    class VectorResolver extends Resolver {
      queries = 0;
      override resolve(): Promise<string[]> {
        this.queries += 1;
        return Promise.resolve(vector.resolve ?? []);
      }
    }
    const resolver = new VectorResolver();
    const client = new EgressClient({
      allowlist: policy.allow,
      schemes: ['https', 'http'],
      resolver,
    });
    try {
      const fault = await catchToolError(fetchOne({ url: vector.url }, reader(true, client)));
      expect(['EGRESS_REFUSED', 'NETWORK_ERROR', 'TOOL_ERROR']).toContain(fault.code);
      if (vector.layer === 'url') expect(resolver.queries).toBe(0);
    } finally {
      await client.close();
    }
  });
});

describe('crawl_batch', () => {
  it('reads in parallel, keeps the order, and reports failures with the successes', async () => {
    let open = 0;
    let most = 0;
    const slow =
      (name: string): Handler =>
      (_request, response) => {
        open += 1;
        most = Math.max(most, open);
        setTimeout(() => {
          open -= 1;
          html(`<title>${name}</title><p>${name}`)(_request, response);
        }, 60);
      };
    for (const name of ['a', 'b', 'c']) routes.set(`/${name}`, slow(name));
    const progress: CallProgress[] = [];
    const urls = [`${origin}/a`, `${origin}/none`, 'http://10.0.0.1/', `${origin}/b`, `${origin}/c`, `${origin}/a`];
    const { output, text } = await runTool(
      crawlBatch,
      { urls },
      { services: { pages: reader() }, progress: (one) => progress.push(one) },
    );
    const { results, succeeded, failed } = output as JsonObject;
    expect((results as JsonObject[]).map((one) => one.title ?? one.code)).toEqual([
      'a',
      'UPSTREAM_ERROR',
      'EGRESS_REFUSED',
      'b',
      'c',
    ]);
    expect([succeeded, failed]).toEqual([3, 2]);
    expect(most).toBeGreaterThan(1);
    expect(progress.at(-1)).toMatchObject({ progress: 5, total: 5 });
    expect(text).toContain('3 of 5 pages read');
  });
});
