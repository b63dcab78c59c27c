import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CHAINED, createLogger } from '@toolfleet/telemetry';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { main } from '../main.js';
import { terminalOn } from '../terminal.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolfleet-audit-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What one gateway writes from its start to its end, other lines between. */
function gatewayLog(calls: number, ends = true): string[] {
  let text = '';
  const log = createLogger({ service: 'gateway', destination: { write: (lines) => void (text += lines) } });
  log.info({ audit: CHAINED }, 'audit log begins');
  for (let n = 1; n <= calls; n += 1) {
    log.info({ audit: CHAINED, call_id: `c${n}`, success: true }, 'call finished');
    log.info({ port: n }, 'something else');
  }
  if (ends) log.info({ audit: CHAINED }, 'audit log ends');
  return text.trimEnd().split('\n');
}

async function verify(...logs: string[][]): Promise<{ code: number; out: string; report: any }> {
  const files = await Promise.all(
    logs.map(async (lines, n) => {
      const file = join(folder, `${n}.log`);
      await writeFile(file, `${lines.join('\n')}\n`);
      return file;
    }),
  );
  const run = async (...more: string[]) => {
    let out = '';
    const io = { out: (text: string) => void (out += text), error: () => undefined, readInput: async () => '' };
    const code = await main(['audit', 'verify', ...files, ...more], terminalOn(io), { env: {} } as never);
    return { code, out };
  };
  const { code, out } = await run();
  return { code, out, report: JSON.parse((await run('--json')).out) };
}
const faultsOf = ({ report }: { report: { faults: { fault: string }[] } }) => report.faults.map(({ fault }) => fault);

describe('fleetctl audit verify', () => {
  it('follows the chains of several gateways and restarts, mixed and over rotated files', async () => {
    const [a, b, c] = [gatewayLog(20), gatewayLog(15, false), gatewayLog(3)];
    const mixed = [...a.keys()].flatMap((n) => [a[n]!, ...(b[n] === undefined ? [] : [b[n]])]);
    const { code, out, report } = await verify(mixed.slice(0, 30), mixed.slice(30), c);
    expect(code).toBe(0);
    expect(report).toMatchObject({ intact: true, faults: [] });
    expect(report.chains.map(({ lines, ended }: any) => [lines, ended])).toEqual([
      [22, true],
      [16, false],
      [5, true],
    ]);
    expect(out.match(/not ended/g)).toHaveLength(1);
  });

  it.each<[string, (lines: string[]) => string[], string[]]>([
    ['changed', (lines) => lines.with(5, lines[5]!.replace('"c3"', '"c9"')), ['line 4 of the chain was changed']],
    [
      'changed, the last one',
      (lines) => [...lines.slice(0, -1), lines.at(-1)!.replace('info', 'warn')],
      ['line 7 of the chain was changed'],
    ],
    ['missing', (lines) => lines.toSpliced(5, 1), ['line 4 of the chain is missing or moved']],
    ['missing in front', (lines) => lines.slice(4), ['lines 1 to 3 of the chain are missing or moved']],
    [
      'moved',
      (lines) => lines.with(5, lines[7]!).with(7, lines[5]!),
      ['line 4 of the chain is missing or moved', 'line 4 of the chain comes after line 5: moved or repeated'],
    ],
    [
      'repeated',
      (lines) => lines.toSpliced(6, 0, lines[5]!),
      ['line 4 of the chain comes after line 4: moved or repeated'],
    ],
    [
      'cut in the middle',
      (lines) => lines.with(5, lines[5]!.slice(0, -60)),
      ['an audit line whose place in the chain is damaged', 'line 4 of the chain is missing or moved'],
    ],
  ])('shows a line that is %s', async (_, change, faults) => {
    const lines = gatewayLog(5);
    const cut = change(lines);
    const told = await verify(cut);
    expect(told.code).toBe(1);
    expect(faultsOf(told)).toEqual(faults);
  });

  it('shows a line that was replaced together with its hash', async () => {
    const lines = gatewayLog(5);
    const other = gatewayLog(5);
    const chain = JSON.parse(lines[0]!).audit.chain as string;
    const forged = other.map((line) => line.replace(/"chain":"[^"]*"/, `"chain":"${chain}"`));
    expect(faultsOf(await verify(lines.with(5, forged[5]!)))).toContain('line 4 of the chain was changed');
  });

  it('says that a chain without its end may have been cut', async () => {
    const { code, out } = await verify(gatewayLog(5).slice(0, 8));
    expect(code).toBe(0);
    expect(out).toContain('not ended: running, killed or cut');
  });

  it('fails on files that are not there or hold no audit lines', async () => {
    const file = join(folder, 'empty.log');
    await writeFile(file, '{"message":"x"}\n');
    const errors: string[] = [];
    const io = { out: () => undefined, error: (text: string) => void errors.push(text), readInput: async () => '' };
    for (const path of [file, join(folder, 'none.log')]) {
      expect(await main(['audit', 'verify', path], terminalOn(io), { env: {} } as never)).toBe(1);
    }
    expect(errors.join('')).toMatch(/No audit lines.*cannot be read: ENOENT/s);
    expect(await readFile(file, 'utf8')).toContain('message');
  });
});
