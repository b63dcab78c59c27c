// recipe
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
// end of recipe

/** The pictures in a result as a program gets it. */
export const picturesIn = ({ content }) => content.filter(({ type }) => type === 'image').map(({ data }) => data);

export async function recipe({ url, key, name, args, signal, onProgress, onTools }) {
  // recipe
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  const toolfleet = new Client({ name: 'app', version: '1.0.0' });
  await toolfleet.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const { tools } = await toolfleet.listTools();
  const result = await toolfleet.callTool({ name, arguments: args }, undefined, { signal, onprogress: onProgress });
  await toolfleet.close();
  // end of recipe
  onTools(tools.map((tool) => tool.name));
  return result;
}
