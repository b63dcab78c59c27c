import type { JsonObject } from '@toolfleet/contracts';
import { PAGE_DIGEST } from '@toolfleet/contracts/app-page';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import { aTool } from '@toolfleet/testing/engine-fixture';
import { expect, it } from 'vitest';
import { approvedContents } from './approved-contents.js';

const OWN = 'mcp-0123456789abcdef';
const PAGE = 'ui://crm/page';
const MANIFEST = 'skill://refunds/SKILL.md';
const SKILL = { uri: MANIFEST, resources: [] };

const definition = (name: string, binding: JsonObject, more: Partial<RegisteredTool> = {}): RegisteredTool =>
  aTool({
    name,
    source: { kind: 'mcp', name: 'crm' },
    binding: {
      kind: 'mcp',
      server: 'crm',
      transport: 'streamable-http',
      url: 'https://crm.example',
      remoteName: 'x',
      authority: OWN,
      ...binding,
    } as never,
    ...more,
  });
const RESOURCES = definition('resource:crm', { method: 'resources/read' });
const shows = (digest: string | undefined, more: Partial<RegisteredTool> = {}) =>
  definition(
    'crm_show',
    {},
    {
      listing: { _meta: { ui: { resourceUri: PAGE }, ...(digest && { [PAGE_DIGEST]: digest }) } },
      ...more,
    },
  );
const skill = (more: Partial<RegisteredTool> = {}, digest: string | undefined = 'd') =>
  definition(
    'skill:crm_refunds',
    { method: 'skills/get', remoteName: MANIFEST, digest: digest as string },
    { listing: { skill: SKILL }, ...more },
  );

const approved = (all: RegisteredTool[], uri: string, tools = ['*'], args: JsonObject = {}) =>
  approvedContents(
    {
      tool: RESOURCES,
      arguments: { uri, ...args },
      request: { principal: { tenantId: 'acme', roles: [], tools } },
    } as never,
    async () => [all.slice(0, 1), all.slice(1)],
  );
const HELD = { quarantine: { reason: 'changed' } } as Partial<RegisteredTool>;
const ELSEWHERE = { source: { kind: 'mcp', name: 'other' } } as Partial<RegisteredTool>;

it.each<[string, RegisteredTool[], unknown]>([
  ['the digest of the tool that shows it', [shows('a')], { pages: ['a'] }],
  ['those of all its tools', [shows('a'), shows('b')], { pages: ['a', 'b'] }],
  ['none of a tool in quarantine', [shows('a', HELD)], { pages: [] }],
  ['nothing where pages may change', [shows(undefined)], undefined],
  ['nothing of another server', [shows('a', ELSEWHERE)], undefined],
  ['none of a tool that needs another role', [shows('a', { required_roles: ['admin'] })], { pages: [] }],
])('a page has %s', async (_what, all, expected) => {
  expect(await approved(all, PAGE)).toEqual(expected);
  // Callers may send the address of the fleet.
  expect(await approved(all, `ui://${OWN}/crm/page`)).toEqual(expected);
});

it('a key has only what its tools show', async () => {
  expect(await approved([shows('a')], PAGE, ['resource:*'])).toEqual({ pages: [] });
  expect(await approved([skill()], MANIFEST, ['resource:*'])).toEqual({ skills: [] });
});

it.each<[string, RegisteredTool[], string, unknown]>([
  ['its skill', [skill()], 'skill://refunds/a.md', { skills: [SKILL] }],
  ['none in quarantine', [skill(HELD)], MANIFEST, { skills: [] }],
  [
    'nothing where files may change',
    [definition('skill:crm_refunds', { method: 'skills/get', remoteName: MANIFEST })],
    MANIFEST,
    undefined,
  ],
  ['nothing in another folder', [skill()], 'skill://refunds-2/a.md', undefined],
])('a file of a skill has %s', async (_what, all, uri, expected) => {
  expect(await approved(all, uri)).toEqual(expected);
});

it('what is pinned stays so while its tools and skills are on no list', async () => {
  const listing = { pages: [PAGE], skills: [MANIFEST] };
  const read = (uri: string) =>
    approvedContents(
      {
        tool: { ...RESOURCES, listing },
        arguments: { uri },
        request: { principal: { tenantId: 'acme', roles: [], tools: ['*'] } },
      } as never,
      async () => [],
    );
  expect(await read(PAGE)).toEqual({ pages: [] });
  expect(await read('skill://refunds/a.md')).toEqual({ skills: [] });
  expect(await read('ui://crm/other')).toBeUndefined();
});

it('other requests have nothing', async () => {
  expect(await approved([shows('a')], PAGE, ['*'], { directory: true })).toBeUndefined();
  expect(await approved([shows('a')], 'ui://crm/other')).toBeUndefined();
});
