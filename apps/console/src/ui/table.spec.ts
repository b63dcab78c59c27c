import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';
import { Table, type TableColumn } from './table.js';

interface Tool {
  name: string;
  calls: number;
}

const COLUMNS: readonly (TableColumn<Tool> | false)[] = [
  { head: 'Tool', kind: 'lead', cell: ({ name }) => name, note: ({ calls }) => calls === 0 && 'unused' },
  { head: 'Calls', kind: 'figure', className: 'desk-only', cell: ({ calls }) => calls },
  false,
];

const render = (rows: readonly Tool[], empty?: string) =>
  renderToStaticMarkup(
    createElement(Table<Tool>, { rows, columns: COLUMNS, actions: () => 'Remove', rowKey: ({ name }) => name, empty }),
  );

it('has a head for each column that is not left out; that of actions is for screen readers', () => {
  const heads = [...render([]).matchAll(/<th ([^>]*)>(.*?)<\/th>/g)].map(([, attributes, text]) => [attributes, text]);
  expect(heads).toEqual([
    ['scope="col"', 'Tool'],
    ['scope="col" class="figure desk-only"', 'Calls'],
    ['scope="col"', '<span class="visually-hidden">Actions</span>'],
  ]);
});

it('labels cells by their head where they do not explain themselves, and adds notes', () => {
  const cells = [...render([{ name: 'sum', calls: 0 }]).matchAll(/<td[^>]*>.*?<\/td>/g)].map(([cell]) => cell);
  expect(cells).toEqual([
    '<td class="lead">sum<span class="small soft"> unused</span></td>',
    '<td class="figure desk-only" data-label="Calls">0</td>',
    '<td class="actions"><span class="row">Remove</span></td>',
  ]);
});

it('says why there is no row', () => {
  expect(render([], 'No tools yet.')).toBe('<p class="empty">No tools yet.</p>');
  expect(render([{ name: 'sum', calls: 1 }], 'No tools yet.')).not.toContain('No tools yet.');
});
