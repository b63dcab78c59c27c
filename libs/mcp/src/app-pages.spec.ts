import type { JsonObject, Principal } from '@toolfleet/contracts';
import { PAGE_DIGEST, pageDigest } from '@toolfleet/contracts/app-page';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { expect, it } from 'vitest';
import { requireApprovedPage } from './app-pages.js';
import type { McpServerDeps } from './server-deps.js';

const PAGE = 'ui://crm/page';
const HTML = [{ uri: 'ui://mcp-0123456789abcdef/crm/page', mimeType: 'text/html;profile=mcp-app', text: '<p>hi</p>' }];

function tool(digest: string, source = 'crm'): RegisteredTool {
  const listing = { _meta: { ui: { resourceUri: PAGE }, [PAGE_DIGEST]: digest } };
  return { name: 'crm_show', source: { kind: 'mcp', name: source }, listing } as unknown as RegisteredTool;
}
const read = (tools: RegisteredTool[], contents: JsonObject[], listing: JsonObject = { pages: [PAGE] }) => {
  const deps = { listTools: async () => tools } as unknown as McpServerDeps;
  const definition = { source: { kind: 'mcp', name: 'crm' }, listing } as unknown as RegisteredTool;
  return requireApprovedPage({ deps, principal: {} as Principal }, { definition, uri: PAGE }, { contents });
};

it('a page is read as it was approved, whatever its address', async () => {
  const digest = pageDigest(HTML);
  await read([tool(digest)], HTML);
  await read([tool(digest)], [{ ...HTML[0]!, uri: PAGE }]);
});

it.each<[string, RegisteredTool[], JsonObject[]]>([
  ['whose text changed', [tool(pageDigest(HTML))], [{ ...HTML[0]!, text: '<p>hi!</p>' }]],
  ['whose policy changed', [tool(pageDigest(HTML))], [{ ...HTML[0]!, _meta: { ui: { csp: {} } } }]],
  ['of a quarantined tool, which is not listed', [], HTML],
  ['that a tool of another server shows', [tool(pageDigest(HTML), 'other')], HTML],
])('a page %s is refused', async (_what, tools, contents) => {
  await expect(read(tools, contents)).rejects.toMatchObject({ data: { code: 'TOOL_QUARANTINED' } });
});

it('other resources, and pages of servers that may change them, are not checked', async () => {
  await read([], HTML, { pages: ['ui://crm/other'] });
  await read([], HTML, {});
});
