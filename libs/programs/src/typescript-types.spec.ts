import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BUILTIN, ENUMS, GROWING, HOSTILE, hostile, NAMES, ORDER, tool } from '../spec/sample-tools.js';
import { toolTypes } from './typescript-types.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const TSC = join(ROOT, 'node_modules/typescript/bin/tsc');
const CLIENT = join(ROOT, 'libs/client/src/index.ts');

/** A program that uses the types: each line below an `@ts-expect-error` has to be an error. */
const USER = `
import { ToolfleetClient } from ${JSON.stringify(CLIENT)};
import type { Tools } from './order.js';
const fleet = new ToolfleetClient<Tools>({ url: 'http://127.0.0.1:1' });
const done = await fleet.call('order_put', { customer: { name: 'Ann', age: null }, item: { id: 'a', n: 1 }, tags: ['new', null] });
if (done.success) done.output.id satisfies string;
else done.error satisfies string;
await fleet.callAsync('order_put', { customer: { name: 'Ann' }, item: { id: 'a' }, when: 3 }, { timeout_ms: 5 });
// @ts-expect-error an unknown tool
await fleet.call('order_get', {});
// @ts-expect-error a member is missing
await fleet.call('order_put', { customer: {}, item: { id: 'a' } });
// @ts-expect-error a value that the enumeration does not have
await fleet.call('order_put', { customer: { name: 'Ann' }, item: { id: 'a' }, tags: ['old'] });
// @ts-expect-error there is no output before success is known
done.output.id;
const any = new ToolfleetClient({ url: 'http://127.0.0.1:1' });
(await any.call('whatever', { a: [1, { b: null }] })).text satisfies string;
`;

const TYPES = {
  builtin: toolTypes(BUILTIN),
  order: toolTypes([
    { ...ORDER, output_schema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] } },
  ]),
  names: toolTypes(NAMES),
  growing: toolTypes(GROWING),
  enums: toolTypes([ENUMS]),
  nothing: toolTypes([]),
  ...Object.fromEntries(HOSTILE.map((text, index) => [`hostile-${index}`, toolTypes([hostile(text)])])),
};

describe('types of tools', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'toolfleet-types-'));
    for (const [name, text] of Object.entries(TYPES)) await writeFile(join(folder, `${name}.ts`), text);
    await writeFile(join(folder, 'user.ts'), USER);
    const compilerOptions = {
      ...{ strict: true, noEmit: true, target: 'es2024', module: 'nodenext', lib: ['es2024', 'dom'], types: [] },
      ...{ skipLibCheck: true, customConditions: ['@toolfleet/source'], allowImportingTsExtensions: true },
    };
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }));
    await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('are TypeScript, whatever the schemas, and typed clients find mistakes', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [TSC, '-p', folder]).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout.split('\n').filter((line) => line.includes('error'))).toEqual([]);
  });

  it('show what schemas say', () => {
    expect(toolTypes([ORDER])).toBe(`// Types of tools, for \`new ToolfleetClient<Tools>(…)\` of @toolfleet/client.

export type OrderPutItem = {
  id: string;
  n?: 1;
};

export interface Tools {
  /** Does order_put. */
  order_put: {
    arguments: {
      customer: {
        /** Full name */
        name: string;
        age?: number | null;
      };
      item: OrderPutItem;
      limit?: number;
      tags?: ("new" | "paid" | null)[];
      labels?: { [key: string]: number };
      when?: string | number;
    };
    output: unknown;
  };
}
`);
  });

  it('stay small for schemas that refer to each other without end', () => {
    expect(TYPES.growing.length).toBeLessThan(200_000);
    const loops = tool('a', {
      properties: { x: { $ref: '#/$defs/A' } },
      $defs: { A: { anyOf: [{ $ref: '#/$defs/A' }, { type: 'string' }] } },
    });
    expect(toolTypes([loops])).toContain('export type AA = unknown;');
  });
});
