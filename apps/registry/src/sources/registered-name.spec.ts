import { expect, it } from 'vitest';
import { registeredName } from './registered-name.js';

it.each([
  [{ name: 'github' }, 'search', 'github_search'],
  [{ name: 'github', prefix: 'gh' }, 'search', 'gh_search'],
  [{ name: 'github', prefix: '' }, 'search', 'search'],
  [{ name: 'my-server' }, 'get-item', 'my-server_get-item'],
])('%j and %s make %s', (server, tool, name) => expect(registeredName(server, tool)).toBe(name));

it('names are legal, at most 64 characters, and tell changed names apart', () => {
  const names = ['a.b', 'a b', 'a/b', 'é', '', '天气', '汉', 'x'.repeat(80), `${'x'.repeat(80)}y`].map((tool) =>
    registeredName({ name: 's' }, tool),
  );
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
});

it.each([
  ['get weather', {}, 's_get_weather_'],
  ['x/y:z', {}, 's_x_y_z_'],
  ['файл', {}, 's_fail_'],
  ['ПолучитьЩит', {}, 's_PoluchitShchit_'],
  ['größe', {}, 's_grosse_'],
  ['αρχείο', {}, 's_archeio_'],
  ['天气', { title: '天气', description: 'Returns the weather of a city.' }, 's_returns_the_weather_of_'],
  ['天气', { description: '查询天气' }, 's_tool_'],
])('%s is readable', (tool, texts, start) => {
  const name = registeredName({ name: 's' }, tool, texts);
  expect([name.slice(0, -6), name]).toEqual([start, expect.stringMatching(/[0-9a-f]{6}$/)]);
});
