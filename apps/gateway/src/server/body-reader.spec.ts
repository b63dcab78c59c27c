import { SystemClock } from '@toolfleet/resilience';
import { describe, expect, it } from 'vitest';
import { BodyReader } from './body-reader.js';

const bytes = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));

describe('bodies', () => {
  const bodies = new BodyReader(new SystemClock());

  it.each([
    ['small', 10],
    ['large', 100_000],
    ['so large that a thread reads them', 1_000_000],
  ])('that are %s are read', async (_, length) => {
    const value = { text: '"'.repeat(length), list: [1, null, { ['__proto__']: true }] };
    const reading = await bodies.read('acme', bytes(value));
    expect(JSON.stringify(reading.value)).toBe(JSON.stringify(value));
    const numbers = (number: string) => Buffer.from(`[${number},"${'x'.repeat(length)}"]`);
    const integer = await bodies.read('acme', numbers('9007199254740993'));
    expect(integer.value).toEqual([9007199254740993n, 'x'.repeat(length)]);
    await expect(bodies.read('acme', numbers('1e999'))).resolves.toMatchObject({ fault: 'number' });
    const bad = Buffer.concat([Buffer.from('"'), Buffer.alloc(length, 0xff)]);
    await expect(bodies.read('acme', bad)).resolves.toMatchObject({ fault: 'encoding' });
    await expect(bodies.read('acme', Buffer.from('x'.repeat(length)))).resolves.toMatchObject({ fault: 'syntax' });
    if (length > 10)
      await expect(bodies.read('acme', bytes(Array(60_000).fill(1)))).resolves.toMatchObject({ fault: 'nodes' });
  });

  it.each([
    ['values', () => `[${'1,'.repeat(150_000)}`],
    ['names', () => `{${Array.from({ length: 16_000 }, (_, index) => `"argument_${index}":1,`).join('')}`],
  ])('with too many %s are refused before their rest has arrived', async (what, text) => {
    const body = bodies.receive('acme');
    for (const part of text().match(/[^]{1,65536}/g)!) await body.take(Buffer.from(part));
    expect((await body.refused).message).toMatch(what === 'names' ? 'different names' : 'names and values');
    await body.take(Buffer.from('1]'));
    expect((await body.end()).fault).toBeDefined();
  });

  it('of tenants take turns', async () => {
    const order: string[] = [];
    const body = bytes('x'.repeat(400_000));
    const read = async (tenant: string) => {
      await bodies.read(tenant, body);
      order.push(tenant);
    };
    await Promise.all([read('acme'), read('acme'), read('acme'), read('globex')]);
    expect(order.indexOf('globex')).toBeLessThan(2);
  });
});
