import { expect, test } from 'vitest';
import { knownBase } from './public-origin.js';

test.each([
  [{ GATEWAY_PUBLIC_URL: 'https://tools.example.com/', ENVIRONMENT: 'production' }, 'https://tools.example.com'],
  [{ GATEWAY_PUBLIC_URL: 'https://tools.example.com', ENVIRONMENT: 'development' }, 'https://tools.example.com'],
  [{ ENVIRONMENT: 'development' }, 'http://localhost:8080'],
  [{ ENVIRONMENT: 'development', GATEWAY_PORT: 0 }, undefined],
  [{ ENVIRONMENT: 'production' }, undefined],
])('with %j, links without a request begin with %s', (settings, base) =>
  expect(knownBase({ GATEWAY_PORT: 8080, ...settings })).toBe(base),
);
