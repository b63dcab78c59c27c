import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeClock } from '@toolfleet/testing';
import { pino } from 'pino';
import { afterAll, afterEach, beforeEach, expect, it, vi } from 'vitest';
import { AllowedEndpoints } from './allowed-endpoints.js';
import { ServiceFaults } from './service-faults.js';

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-endpoints-'));
const file = join(folder, 'allowed');
const A = 'http://127.0.0.1:3000';
const B = 'http://127.0.0.1:4000';
let clock: FakeClock;
let faults: ServiceFaults;
let endpoints: AllowedEndpoints;
beforeEach(async () => {
  clock = new FakeClock();
  faults = new ServiceFaults(clock);
  const settings = {
    EGRESS_ALLOWED_ENDPOINTS: ['http://localhost:80'],
    EGRESS_ENDPOINTS_FILE: file,
    TOOLFLEET_LOCAL: true,
  };
  endpoints = new AllowedEndpoints(settings, { clock, faults, logger: pino({ enabled: false }) });
  await endpoints.start();
});
afterEach(() => endpoints.stop());
afterAll(() => rmSync(folder, { recursive: true }));

const allowed = (): string[] => [A, B, 'http://localhost'].filter((origin) => endpoints.has(origin));

/** Writes the file and waits for the next look at it. */
async function write(text: string, expected: string[]): Promise<void> {
  writeFileSync(file, text);
  await vi.waitFor(() => {
    clock.advance(1_000);
    expect(allowed()).toEqual(expected);
  });
}

it('starts without the file and follows its changes', async () => {
  expect(allowed()).toEqual(['http://localhost']);
  await write(`${A}\n${B} # mine\n\n# none\n`, [A, B, 'http://localhost']);
  await write(`${B}\n`, [B, 'http://localhost']);
});

it('adds origins to the file on request', async () => {
  await write(`${A} # no line end`, [A, 'http://localhost']);
  expect(await endpoints.allow([`${B}/`, A])).toEqual([B, A]);
  expect(allowed()).toEqual([A, B, 'http://localhost']);
  expect(readFileSync(file, 'utf8')).toBe(`${A} # no line end\n${B}\n`);
  await expect(endpoints.allow([`${B}/path`])).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  rmSync(file);
});

it('keeps what was allowed when a line is not an origin', async () => {
  await write(`${A}\n`, [A, 'http://localhost']);
  writeFileSync(file, `${B}\nhttp://127.0.0.1:4000/path\n`);
  await endpoints.start();
  expect(allowed()).toEqual([A, 'http://localhost']);
  expect(faults.list()).toMatchObject([{ subject: 'allowed endpoints' }]);
  writeFileSync(file, `${A}\n`);
  await endpoints.start();
  expect(faults.list()).toEqual([]);
});
