import { expect, it } from 'vitest';
import { toRegistration, suggestName, toPlace } from './source-registration.js';

it.each([
  ['https://api.shop.example.com/openapi.json', 'example'],
  ['https://mcp.linear.app/mcp', 'linear'],
  ['http://127.0.0.1:4010/openapi.json', ''],
  ['openapi: 3.1.0\ninfo:\n  title: My Shop\n', 'my_shop'],
  ['{"openapi": "3.1.0",\n "title": "Books"}', 'books'],
])('suggests a name for %s', (place, name) => expect(suggestName(place)).toBe(name));

it('registers a URL or a document under its prefix, with a credential if there is one', () => {
  const said = { name: ' shop ', prefix: 'shop', credential: '' };
  expect(toPlace(' https://a.example/x ')).toEqual({ url: 'https://a.example/x' });
  expect(toRegistration('https://a.example/x', 'openapi', said)).toEqual({
    name: 'shop',
    spec_url: 'https://a.example/x',
    name_prefix: 'shop_',
  });
  expect(toRegistration('openapi: 3.1.0', 'openapi', { ...said, prefix: '', credential: 'Bearer x' })).toEqual({
    name: 'shop',
    spec_inline: 'openapi: 3.1.0',
    name_prefix: '',
    extra_headers: { Authorization: 'Bearer x' },
  });
  expect(toRegistration('https://a.example/mcp', 'mcp', { ...said, credential: 'Bearer x' })).toEqual({
    name: 'shop',
    url: 'https://a.example/mcp',
    prefix: 'shop',
    headers: { Authorization: 'Bearer x' },
  });
});
