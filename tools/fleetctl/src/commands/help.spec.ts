import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { CALCULATOR, folder, routes, run, serveGateway, url } from '../fleetctl.fixture.js';

serveGateway();

describe('tool new, help', () => {
  it('writes a tool that loads', async () => {
    const { out, code } = await run(['tool', 'new', 'word_count']);
    expect([code, out]).toEqual([0, 'plugins/word-count.tool.mjs\n']);
    const module = (await import(pathToFileURL(join(folder, 'plugins/word-count.tool.mjs')).href)) as {
      default: (api: object) => { handler: (args: object, run: object) => unknown; inputSchema: object };
    };
    const tool = module.default({
      defineTool: (spec: object) => spec,
      ok: (output: object) => output,
      ToolError: Error,
    });
    expect(tool.handler({ text: 'one two' }, { progress: () => {} })).toEqual({ words: 2 });
    expect(await run(['tool', 'new', 'word_count'])).toMatchObject({
      code: 1,
      error: expect.stringContaining('exists'),
    });
    expect((await run(['tool', 'new', '../evil'])).code).toBe(2);
    expect((await run(['tool', 'new', 'calculator'])).error).toContain('The fleet has a tool calculator');
    await run(['tool', 'new', 'elsewhere', '--dir', join(folder, 'own')]);
    expect(existsSync(join(folder, 'own/elsewhere.tool.mjs'))).toBe(true);
  });

  it('says that a tool can be called once the fleet of this machine lists it', async () => {
    const env = { TOOLFLEET_URL: '', TOOLFLEET_STATE_DIR: join(folder, 'state') };
    mkdirSync(env.TOOLFLEET_STATE_DIR);
    writeFileSync(join(env.TOOLFLEET_STATE_DIR, 'local.json'), JSON.stringify({ url, api_key: 'local' }));
    let looks = 0;
    routes.set('GET /api/v1/tools/listed', () => {
      looks += 1;
      if (looks === 2) expect(existsSync(join(folder, 'plugins/listed.tool.mjs'))).toBe(true);
      return looks < 4
        ? { status: 404, body: { error: 'No such tool', code: 'TOOL_NOT_FOUND' } }
        : { status: 200, body: { ...CALCULATOR, name: 'listed' } };
    });
    expect(await run(['tool', 'new', 'listed'], { env })).toEqual({
      code: 0,
      out: 'plugins/listed.tool.mjs\n',
      error: 'The fleet lists it, and loads it again after every save:\nfleetctl call listed --text hello\n',
    });
    expect(looks).toBe(4);
    looks = 0;
    const shown = await run(['tool', 'new', 'listed', '--dir', 'more', '--json'], { env });
    expect(JSON.parse(shown.out)).toEqual({ file: 'more/listed.tool.mjs', name: 'listed', listed: true });
  });

  it('has help for every command', async () => {
    const general = (await run(['help'])).out;
    for (const name of [
      'tools',
      'describe',
      'call',
      'calls',
      'usage',
      'keys',
      'health',
      'tool new',
      'openapi',
      'config',
      'completion',
    ]) {
      expect(general).toContain(name);
      expect((await run([...name.split(' '), '--help'])).out).toContain('fleetctl');
    }
  });

  const binary = join(import.meta.dirname, '../../bin/fleetctl.mjs');
  it.skipIf(!existsSync(join(import.meta.dirname, '../../dist/main.js')))('runs as a program', () => {
    const env = { ...process.env, TOOLFLEET_URL: '', TOOLFLEET_API_KEY: '' };
    expect(execFileSync(process.execPath, [binary, '--version'], { encoding: 'utf8', env })).toBe('0.1.0\n');
    const piped = `"${process.execPath}" "${binary}" help; "${process.execPath}" "${binary}" help | true`;
    expect(execFileSync('bash', ['-o', 'pipefail', '-c', piped], { encoding: 'utf8', env })).toContain('Exit codes');
  });
});
