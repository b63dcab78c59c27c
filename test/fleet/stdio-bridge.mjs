/** A local MCP server that gets its answers from a server over HTTP: `stdio-bridge.mjs URL`. An answer is one line of JSON. */
import { createInterface } from 'node:readline';

const [, , url] = process.argv;
for await (const body of createInterface({ input: process.stdin })) {
  const response = await fetch(url, { method: 'POST', headers: { 'mcp-session-id': 'local' }, body });
  const answer = await response.text();
  if (answer !== '') console.log(answer);
}
