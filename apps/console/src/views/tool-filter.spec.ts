import { expect, it } from 'vitest';
import type { CatalogTool } from '@toolfleet/client';
import { listCategories, filterTools, type ToolChoice } from './tool-filter.js';

const tool = (name: string, more: Partial<CatalogTool> = {}) =>
  ({
    name,
    description: `Does ${name}`,
    category: 'general',
    kind: 'builtin',
    tags: [],
    source: { kind: 'builtin', name: 'compute' },
    available: true,
    dangerous: false,
    callable: true,
    ...more,
  }) as unknown as CatalogTool;

const TOOLS = [
  tool('add_numbers', { category: 'maths' }),
  tool('calculator', { description: 'Can add', category: 'maths' }),
  tool('pets_add', { kind: 'openapi', tags: ['animals'], available: false }),
  tool('file_write', { dangerous: true, callable: false }),
];
const names = (filter: Partial<ToolChoice>) =>
  filterTools(TOOLS, { text: '', kind: '', category: '', only: '', ...filter }).map(({ name }) => name);

it.each([
  [{}, ['add_numbers', 'calculator', 'pets_add', 'file_write']],
  [{ text: 'ADD' }, ['add_numbers', 'pets_add', 'calculator']],
  [{ text: 'add animals' }, ['pets_add']],
  [{ kind: 'openapi' }, ['pets_add']],
  [{ category: 'maths' }, ['add_numbers', 'calculator']],
  [{ only: 'available' }, ['add_numbers', 'calculator', 'file_write']],
  [{ only: 'unavailable' }, ['pets_add']],
  [{ only: 'callable' }, ['add_numbers', 'calculator']],
  [{ only: 'dangerous' }, ['file_write']],
] as [Partial<ToolChoice>, string[]][])('%j', (filter, expected) => {
  expect(names(filter)).toEqual(expected);
});

it('names every category once', () => {
  expect(listCategories(TOOLS)).toEqual(['general', 'maths']);
});
