import { WEBHOOK_ROUTES } from '@toolfleet/contracts/resources';
import { createElement } from 'react';
import { renderToStaticMarkup } from 'react-dom/server';
import { expect, it } from 'vitest';
import { FieldControl } from './field-control.js';
import { toFields, type FormField } from './form.js';
import { toRouteFields } from './route-fields.js';

const render = (field: FormField, text = '', fault?: string, marks?: 'required') =>
  renderToStaticMarkup(createElement(FieldControl, { field, text, fault, marks, onChange: () => undefined }));

const [url, kinds] = toRouteFields(WEBHOOK_ROUTES['POST /api/v1/webhooks'].body, { url: {}, kinds: {} });

it('names its control, and marks what is required or what is optional', () => {
  expect(render(url!, '', undefined, 'required')).toContain('Url<span class="soft"> (required)</span></label>');
  const [field] = toFields({ properties: { limit: { type: 'integer' } } });
  const markup = render(field!);
  expect(markup).toContain('limit<span class="soft"> — optional</span>');
  expect(/<label id="[^"]*" for="([^"]*)"/.exec(markup)?.[1]).toBe(/<input id="([^"]*)"/.exec(markup)?.[1]);
});

it('describes its control by help and fault', () => {
  const markup = render(url!, 'http://x', 'was refused', 'required');
  expect(markup).toContain('aria-invalid="true"');
  const ids = /aria-describedby="([^"]*)"/.exec(markup)![1]!.split(' ');
  for (const id of ids) expect(markup).toContain(`id="${id}"`);
  expect(markup).toContain('role="alert">Url was refused</p>');
});

it('offers the choices of a list as boxes of one group', () => {
  const markup = render(kinds!, 'call.finished breaker.opened', undefined, 'required');
  expect(markup).toMatch(/^<div class="field" role="group" aria-labelledby="[^"]+">/);
  expect([...markup.matchAll(/checked=""\/>([a-z.]+)/g)].map(([, kind]) => kind)).toEqual([
    'call.finished',
    'breaker.opened',
  ]);
});
