import type { JsonObject, Principal } from '@toolfleet/contracts';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { expect, it } from 'vitest';
import { openFeatures } from './features.js';
import type { McpServerDeps } from './server-deps.js';

const OWN = 'mcp-0123456789abcdef';
const MANIFEST = 'skill://refunds/SKILL.md';

function definition(name: string, binding: JsonObject, listing: JsonObject): RegisteredTool {
  const full = { kind: 'mcp', authority: OWN, ...binding };
  return { name, source: { kind: 'mcp', name: 'crm' }, binding: full, listing } as unknown as RegisteredTool;
}
const LISTED = definition(
  'skill:crm_refunds',
  { method: 'skills/get', remoteName: MANIFEST },
  {
    skill: {
      uri: MANIFEST,
      frontmatter: { name: 'refunds' },
      resources: [{ uri: MANIFEST }, { uri: 'skill://refunds/dot.png' }],
    },
  },
);
const RESOURCES = definition('resource:crm', { method: 'resources/read' }, {});
const depsOf = (...definitions: RegisteredTool[]) =>
  ({ listFeatures: async () => definitions }) as unknown as McpServerDeps;
const principal = {} as Principal;

it('lists skills with addresses of the fleet, and finds them by these', async () => {
  const features = await openFeatures(depsOf(LISTED, RESOURCES), principal);
  const address = `skill://${OWN}/refunds/SKILL.md`;
  expect(features.skills).toMatchObject([{ uri: address, resources: [{ uri: address }, {}] }]);
  expect([features.skill(address), features.skill(MANIFEST)]).toEqual([LISTED, undefined]);
});
