// recipe
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
// end of recipe

/** The pictures in a result as a program gets it. */
export const picturesIn = ({ content }) => content.filter(({ type }) => type === 'image').map(({ data }) => data);

export async function recipe({ url, key, name, args, signal, onProgress, onTools }) {
  // recipe
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  const toolfleet = new Client({ name: 'app', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
  await toolfleet.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const { tools } = await toolfleet.listTools();
  const result = await toolfleet.callTool({ name, arguments: args }, { signal, onprogress: onProgress });
  await toolfleet.close();
  // end of recipe
  onTools(tools.map((tool) => tool.name));
  return result;
}
