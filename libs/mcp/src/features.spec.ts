import type { JsonObject, Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { describe, expect, it } from 'vitest';
import { openFeatures, pageOf } from './features.js';
import type { McpServerDeps } from './server-deps.js';

const OWN = 'mcp-0123456789abcdef';

function resources(server: string, authority: string | undefined, listing: JsonObject = {}): RegisteredTool {
  const binding = { kind: 'mcp', server, method: 'resources/read', authority, remoteName: server };
  return { name: `resource:${server}`, binding, listing } as unknown as RegisteredTool;
}
const open = (...definitions: RegisteredTool[]) =>
  openFeatures({ listFeatures: async () => definitions } as unknown as McpServerDeps, {} as Principal);
const serverOf = async (address: string, ...definitions: RegisteredTool[]) => {
  const found = (await open(...definitions)).resource(address);
  return found && [found.definition.name, found.uri];
};

describe('the server of an address', () => {
  it('is the one that it names', async () => {
    const both = [resources('a', OWN), resources('b', 'mcp-fedcba9876543210')];
    expect(await serverOf(`docs://${OWN}/x`, ...both)).toEqual(['resource:a', 'docs://x']);
    expect(await serverOf(`docs://${OWN}/mcp-fedcba9876543210/x`, ...both)).toEqual([
      'resource:a',
      'docs://mcp-fedcba9876543210/x',
    ]);
    for (const address of ['docs://x', 'docs://mcp-0000000000000000/x', 'a', ''])
      expect(await serverOf(address, ...both)).toBeUndefined();
  });

  it('is the only one without prefix, else the one that lists it or has a template for it', async () => {
    const one = resources('one', undefined, { resources: [{ uri: 'docs://x' }] });
    const two = resources('two', undefined, { resourceTemplates: [{ uriTemplate: 'docs://by-id/{id}' }] });
    const all = resources('all', undefined, { resourceTemplates: [{ uriTemplate: '{+any}' }] });
    expect(await serverOf('docs://unlisted', resources('a', OWN), one)).toEqual(['resource:one', 'docs://unlisted']);
    expect(await serverOf('docs://x', two, one)).toEqual(['resource:one', 'docs://x']);
    expect(await serverOf('docs://by-id/7', one, two)).toEqual(['resource:two', 'docs://by-id/7']);
    expect(await serverOf('docs://unlisted', one, two, all)).toBeUndefined();
  });
});

it('lists show the names and addresses of the fleet', async () => {
  const prompt = {
    name: 'prompt:docs_review',
    binding: { kind: 'mcp', method: 'prompts/get' },
    listing: { name: 'review', title: 'Review' },
  } as unknown as RegisteredTool;
  const listing = { resources: [{ uri: 'docs://x', name: 'x' }], resourceTemplates: [{ uriTemplate: 'docs://{id}' }] };
  expect(await open(prompt, resources('docs', OWN, listing))).toMatchObject({
    prompts: [{ name: 'docs_review', title: 'Review' }],
    resources: [{ uri: `docs://${OWN}/x`, name: 'x' }],
    resourceTemplates: [{ uriTemplate: `docs://${OWN}/{id}` }],
  });
});

it('long lists have pages', () => {
  const items = Array.from({ length: 2_500 }, (_, index) => index);
  const all: number[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = pageOf(items, cursor);
    all.push(...page.items);
    cursor = page.nextCursor;
  }
  expect(all).toEqual(items);
  for (const cursor of ['', '-1', '1e3', '2500', 'x']) expect(() => pageOf(items, cursor)).toThrow(/Unknown cursor/);
});
