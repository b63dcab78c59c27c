import { expect, test } from 'vitest';
import { readFreshnessMs } from './response-freshness.js';

const NOW = Date.parse('Sun, 22 Nov 2026 05:00:00 GMT');
const at = (time: string) => `Sun, 22 Nov 2026 ${time} GMT`;

test.each<[Record<string, string | string[]>, number | undefined]>([
  [{}, undefined],
  [{ 'cache-control': '' }, undefined],
  [{ 'cache-control': 'private, must-revalidate' }, undefined],
  [{ 'cache-control': 'max-age=60' }, 60_000],
  [{ 'cache-control': 'Private, Max-Age="60"' }, 60_000],
  [{ 'cache-control': ['public', 'max-age=60'] }, 60_000],
  [{ 'cache-control': 'max-age=60, max-age=600' }, 60_000],
  [{ 'cache-control': 'max-age=60', age: '45' }, 15_000],
  [{ 'cache-control': 'max-age=60', age: '90' }, 0],
  [{ 'cache-control': 'max-age=31536000' }, 86_400_000],
  [{ 'cache-control': 'max-age=-1' }, 0],
  [{ 'cache-control': 'max-age=soon' }, 0],
  [{ 'cache-control': 's-maxage=60' }, undefined],
  [{ 'cache-control': 'max-age=60, no-store' }, 0],
  [{ 'cache-control': 'no-cache' }, 0],
  [{ 'cache-control': 'no-cache="set-cookie", max-age=60' }, 0],
  [{ 'cache-control': 'max-age=60', vary: 'accept, *' }, 0],
  [{ 'cache-control': 'max-age=60', vary: 'accept' }, 60_000],
  [{ expires: at('05:01:00') }, 60_000],
  [{ expires: at('05:01:00'), date: at('05:00:50') }, 10_000],
  [{ expires: at('05:01:00'), 'cache-control': 'max-age=5' }, 5_000],
  [{ expires: '0' }, 0],
  [{ expires: 'never' }, 0],
])('%j allows reuse for %s ms', (headers, expected) => expect(readFreshnessMs(headers, NOW)).toBe(expected));
