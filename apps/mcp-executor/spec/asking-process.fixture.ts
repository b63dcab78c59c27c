/** A local MCP server with a tool that asks for a name. It counts its calls, so that tests see which process ran one. */
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const server = new McpServer({ name: 'local', version: '1' });
let calls = 0;
server.registerTool('greet', { inputSchema: z.object({ who: z.string() }) }, async ({ who }) => {
  calls += 1;
  const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } };
  const { action, content } = await server.server.elicitInput({ message: `Name of ${who}?`, requestedSchema });
  return { content: [{ type: 'text', text: `${calls} ${who}: ${action} ${String(content?.['name'])}` }] };
});
server.registerTool('summarize', { inputSchema: z.object({}) }, async () => {
  const asked = { role: 'user' as const, content: { type: 'text' as const, text: 'Summarize' } };
  const { content } = await server.server.createMessage({ messages: [asked], maxTokens: 10 });
  return { content: [{ type: 'text', text: JSON.stringify(content) }] };
});
await server.connect(new StdioServerTransport());
