/**
 * Sample MCP server of the tour: official SDK, Streamable HTTP, both protocol eras on `/mcp`, and one plain
 * `{"function","args"}` endpoint on `/functions`. `PORT` and `HOST` by environment, or the port as first argument.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  completable,
  createMcpHandler,
  McpServer,
  type McpRequestContext,
  ResourceNotFoundError,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import { memorySkillFiles, SkillsExtension } from '@modelcontextprotocol/server/ext/skills';
import { z } from 'zod';

/** A red dot, 1x1 pixel PNG. */
const RED_DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';
const DOT = { uri: 'sample://dot', mimeType: 'image/png' };
const DOT_TEXT = { uri: 'sample://dot.txt', mimeType: 'text/plain', text: 'a red dot' };
const NOTES = 'sample://notes';
const STYLES = ['painter', 'pirate', 'poet'];
/** A skill that a model reads before it describes a dot. */
const skills = await SkillsExtension.load(
  memorySkillFiles({
    'dot-description/SKILL.md': `---
name: dot-description
description: Describes pictures of dots in a style. Use it when somebody asks about the red dot.
---

# Describe a dot

1. Get the picture with the tool red_dot.
2. Choose a style from [the list](references/styles.md), and say in one sentence what the picture shows.
`,
    'dot-description/references/styles.md': `${STYLES.map((style) => `- ${style}`).join('\n')}\n`,
    'dot-description/assets/dot.png': Buffer.from(RED_DOT, 'base64'),
  }),
);
const MAX_BODY_BYTES = 1024 * 1024;
const notes: string[] = [];

function sampleServer({ era }: McpRequestContext): McpServer {
  const server = new McpServer({ name: 'toolfleet-sample', version: '1.0.0' });
  // Clients of 2025 have no stream here that could report an update.
  server.server.registerCapabilities({ resources: { subscribe: era === 'modern' } });

  skills.attach(server);

  server.registerTool(
    'add',
    {
      description: 'Adds two numbers.',
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      outputSchema: z.object({ sum: z.number() }),
      annotations: { readOnlyHint: true, idempotentHint: true },
    },
    ({ a, b }) => ({ content: [{ type: 'text', text: String(a + b) }], structuredContent: { sum: a + b } }),
  );

  server.registerTool(
    'save_note',
    {
      description: 'Stores a note and answers how many there are. Every call adds one.',
      inputSchema: z.object({ text: z.string().max(1_000) }),
      annotations: { readOnlyHint: false, idempotentHint: false, destructiveHint: false },
    },
    ({ text }) => {
      notes.push(text);
      handler.notify.resourceUpdated(NOTES);
      return { content: [{ type: 'text', text: `${notes.length} notes` }], structuredContent: { count: notes.length } };
    },
  );

  server.registerTool(
    'red_dot',
    {
      title: 'Red dot',
      description: 'Answers a small picture, a link and an embedded document.',
      inputSchema: z.object({}),
      icons: [{ src: `data:image/png;base64,${RED_DOT}`, mimeType: 'image/png' }],
      _meta: { 'example.com/colour': 'red' },
    },
    () => ({
      _meta: { 'example.com/pixels': 1 },
      content: [
        { type: 'image', data: RED_DOT, mimeType: 'image/png' },
        { type: 'resource_link', name: 'dot', ...DOT },
        { type: 'resource', resource: DOT_TEXT },
      ],
    }),
  );

  server.registerTool(
    'count_slowly',
    {
      description: 'Counts to `steps`, one step per 100 ms, with progress. Stops when cancelled.',
      inputSchema: z.object({ steps: z.number().int().min(1).max(600) }),
      annotations: { readOnlyHint: true },
    },
    async ({ steps }, context) => {
      const progressToken = context.mcpReq._meta?.progressToken;
      for (let step = 1; step <= steps; step += 1) {
        await sleep(100, undefined, { signal: context.mcpReq.signal });
        if (progressToken === undefined) continue;
        await context.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress: step, total: steps, message: `step ${step}` },
        });
      }
      return { content: [{ type: 'text', text: `counted to ${steps}` }] };
    },
  );

  server.registerPrompt(
    'describe_dot',
    {
      title: 'Describe the dot',
      description: 'Asks for a description of the picture in a style.',
      argsSchema: z.object({
        style: completable(z.string().describe('Style of the description'), (begun) =>
          STYLES.filter((style) => style.startsWith(begun)),
        ),
      }),
    },
    ({ style }) => ({
      messages: [
        { role: 'user', content: { type: 'text', text: `Describe this picture in the style of a ${style}.` } },
        { role: 'user', content: { type: 'resource', resource: { ...DOT, blob: RED_DOT } } },
      ],
    }),
  );
  server.registerResource('dot', DOT.uri, { description: 'A red dot', mimeType: DOT.mimeType }, () => ({
    contents: [{ ...DOT, blob: RED_DOT }],
  }));
  server.registerResource('dot.txt', DOT_TEXT.uri, { mimeType: DOT_TEXT.mimeType }, () => ({ contents: [DOT_TEXT] }));
  server.registerResource('notes', NOTES, { description: 'The stored notes', mimeType: 'text/plain' }, () => ({
    contents: [{ uri: NOTES, mimeType: 'text/plain', text: notes.join('\n') }],
  }));
  server.registerResource(
    'style',
    new ResourceTemplate('sample://styles/{name}', {
      list: undefined,
      complete: { name: (begun) => STYLES.filter((style) => style.startsWith(begun)) },
    }),
    { description: 'A style of descriptions', mimeType: 'text/plain' },
    ({ href }, { name }) => {
      if (!STYLES.includes(String(name))) throw new ResourceNotFoundError(href);
      return { contents: [{ uri: href, mimeType: 'text/plain', text: `As a ${String(name)} would say it` }] };
    },
  );
  return server;
}

/** The plain endpoint of one-function services: `{"function": "echo", "args": {...}}`. */
async function answerFunction(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES) return answer(response, 413, { error: 'too large' });
    chunks.push(chunk);
  }
  let body: { function?: unknown; args?: Record<string, unknown> };
  try {
    body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return answer(response, 400, { error: 'not JSON' });
  }
  if (body.function === 'echo') return answer(response, 200, { ok: true, function: 'echo', echo: body.args ?? {} });
  if (body.function === 'geocode') {
    return answer(response, 200, { address: body.args?.['address'] ?? null, latitude: 52.52, longitude: 13.405 });
  }
  return answer(response, 400, { error: `unknown function ${String(body.function)}` });
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const handler = createMcpHandler(sampleServer);
const mcp = toNodeHandler(handler);
const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://sample');
  if (pathname === '/mcp') return void mcp(request, response);
  if (pathname === '/functions' && request.method === 'POST') return void answerFunction(request, response);
  if (pathname === '/health') return answer(response, 200, { status: 'ok' });
  return answer(response, 404, { error: 'not found' });
});
server.listen(
  Number(process.env['SAMPLE_MCP_PORT'] ?? process.argv[2] ?? process.env['PORT'] ?? 0),
  process.env['HOST'] ?? '127.0.0.1',
  () => {
    console.log(`sample MCP server on port ${(server.address() as AddressInfo).port}`);
  },
);
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0));
