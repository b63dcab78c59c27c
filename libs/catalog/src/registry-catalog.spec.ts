import type { DefinitionList, DefinitionListReply } from '@toolfleet/contracts/registry';
import type { RegisteredTool } from '@toolfleet/contracts/tool-definition';
import type { NatsClient } from '@toolfleet/transport';
import { expect, it } from 'vitest';
import { RegistrySource } from './registry-catalog.js';

const tool = (name: string, revision = 'r1') => ({ name, revision, available: true }) as RegisteredTool;

/** A source whose registry answers with these pages, one after the other. */
function sourceOf(...pages: DefinitionListReply[]) {
  const asked: DefinitionList[] = [];
  const ask = async (_subject: string, query: DefinitionList) => {
    asked.push(query);
    return pages.shift();
  };
  return { source: new RegistrySource({ ask } as unknown as NatsClient), asked };
}

it('reads what changed, and keeps the rest as it has it', async () => {
  const known = { tools: [tool('a'), tool('b'), tool('gone')], version: 4 };
  const { source, asked } = sourceOf(
    { tools: [tool('b', 'r2')], unchanged: [['a', 'r1']], version: 6, next_cursor: 'b' },
    { tools: [tool('c')], version: 7 },
  );
  const list = await source.list('acme', known);
  expect(list).toEqual({ tools: [tool('a'), tool('b', 'r2'), tool('c')], version: 6 });
  expect(list.tools[0]).toBe(known.tools[0]);
  expect(asked).toMatchObject([{ since: 4 }, { since: 4, cursor: 'b' }]);
});

it.each<[string, string]>([
  ['a', 'r9'],
  ['unknown', 'r1'],
])('reads the whole list where the store is another one: %s is %s there', async (name, revision) => {
  const known = { tools: [tool('a'), tool('b')], version: 40 };
  const whole = { tools: [tool('a', 'r9')], version: 41 };
  const { source, asked } = sourceOf({ tools: [], unchanged: [[name, revision]], version: 41 }, whole);
  expect(await source.list('acme', known)).toEqual(whole);
  expect(asked.map(({ since }) => since)).toEqual([40, undefined]);
});
