import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeClock } from '@toolfleet/testing';
import { pino } from 'pino';
import { afterAll, beforeEach, expect, it } from 'vitest';
import { AllowedEndpoints } from './allowed-endpoints.js';
import { ServiceFaults } from './service-faults.js';

const folder = mkdtempSync(join(tmpdir(), 'toolfleet-endpoints-'));
const file = join(folder, 'allowed');
const A = 'http://127.0.0.1:3000';
const B = 'http://127.0.0.1:4000';
let faults: ServiceFaults;
let endpoints: AllowedEndpoints;
beforeEach(() => {
  const clock = new FakeClock();
  faults = new ServiceFaults(clock);
  const settings = {
    EGRESS_ALLOWED_ENDPOINTS: ['http://localhost:80'],
    EGRESS_ENDPOINTS_FILE: file,
    TOOLFLEET_LOCAL: true,
  };
  endpoints = new AllowedEndpoints(settings, { clock, faults, logger: pino({ enabled: false }) });
  endpoints.start();
});
afterAll(() => rmSync(folder, { recursive: true }));

const allowed = (): string[] => [A, B, 'http://localhost'].filter((origin) => endpoints.has(origin));

/** Writes the file and expects that its origins count at once. */
function write(text: string, expected: string[]): void {
  writeFileSync(file, text);
  expect(allowed()).toEqual(expected);
}

it('starts without the file and follows its changes', () => {
  expect(allowed()).toEqual(['http://localhost']);
  write(`${A}\n${B} # mine\n\n# none\n`, [A, B, 'http://localhost']);
  write(`${B}\n`, [B, 'http://localhost']);
});

it('adds origins to the file on request', () => {
  write(`${A} # no line end`, [A, 'http://localhost']);
  expect(endpoints.allow([`${B}/`, A])).toEqual([B, A]);
  expect(allowed()).toEqual([A, B, 'http://localhost']);
  expect(readFileSync(file, 'utf8')).toBe(`${A} # no line end\n${B}\n`);
  expect(() => endpoints.allow([`${B}/path`])).toThrow(expect.objectContaining({ code: 'REQUEST_INVALID' }));
  rmSync(file);
});

it('keeps what was allowed when a line is not an origin', () => {
  write(`${A}\n`, [A, 'http://localhost']);
  writeFileSync(file, `${B}\nhttp://127.0.0.1:4000/path\n`);
  endpoints.start();
  expect(allowed()).toEqual([A, 'http://localhost']);
  expect(faults.list()).toMatchObject([{ subject: 'allowed endpoints' }]);
  writeFileSync(file, `${A}\n`);
  endpoints.start();
  expect(faults.list()).toEqual([]);
});
