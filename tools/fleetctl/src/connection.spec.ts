import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { folder, run, seen, url, serveGateway } from './fleetctl.fixture.js';
import { main } from './main.js';
import { terminalOn } from './terminal.js';

serveGateway();

describe('where the fleet is', () => {
  it('is found in .toolfleet/local.json above the folder, whose key goes nowhere else', async () => {
    const project = join(folder, 'project');
    await mkdir(join(project, '.toolfleet'), { recursive: true });
    await mkdir(join(project, 'deep/inside'), { recursive: true });
    await writeFile(join(project, '.toolfleet/local.json'), JSON.stringify({ url, api_key: 'local-key' }));
    // Empty variables are unset ones.
    const env = { HOME: folder, TOOLFLEET_URL: '', TOOLFLEET_API_KEY: '' };
    const terminal = terminalOn({ out: () => {}, error: () => {}, readInput: () => Promise.resolve('') });
    expect(await main(['tools'], terminal, { env, cwd: join(project, 'deep/inside') })).toBe(0);
    expect(seen.at(-1)?.key).toBe('Bearer local-key');
    await main(['tools', '--url', url.replace('127.0.0.1', 'localhost')], terminal, { env, cwd: project });
    expect(seen.at(-1)?.key).toBeUndefined();
    expect(await main(['tools'], terminal, { env, cwd: tmpdir() })).toBe(3);
    const elsewhere = (dir: string) => ({ env: { ...env, TOOLFLEET_STATE_DIR: dir }, cwd: project });
    await mkdir(join(folder, 'state'));
    await writeFile(join(folder, 'state/local.json'), JSON.stringify({ url, api_key: 'state-key' }));
    for (const dir of [join(folder, 'state'), '../state']) {
      expect(await main(['tools'], terminal, elsewhere(dir))).toBe(0);
      expect(seen.pop()?.key).toBe('Bearer state-key');
    }
    // Another fleet than the one that is named is not meant.
    expect(await main(['tools'], terminal, elsewhere('../empty'))).toBe(3);
  });

  it('is stored in the user’s folder by config, readable only by the user', async () => {
    const env = { XDG_CONFIG_HOME: join(folder, 'xdg') };
    await run(['config', 'set', 'url', url], { env });
    await run(['config', 'set', 'api_key', '-'], { env, input: 'tf_secret_key_value\n' });
    const { out } = await run(['config'], { env });
    expect(out).toContain(`url: ${url}`);
    expect(out).not.toContain('tf_secret_key_value');
    expect(JSON.parse(await readFile(join(folder, 'xdg/fleetctl/config.json'), 'utf8'))).toEqual({
      url,
      api_key: 'tf_secret_key_value',
    });
    expect(await run(['config', 'set', 'url', 'not a url'], { env })).toMatchObject({ code: 2 });
    expect(await run(['config', 'set', 'api_key', '-'], { env, input: '\n' })).toMatchObject({ code: 2 });
    await run(['config', 'unset', 'api_key'], { env });
    expect((await run(['config', '--json'], { env })).out).not.toContain('api_key');
  });

  it('is not guessed from a file that cannot be read', async () => {
    const env = { XDG_CONFIG_HOME: join(folder, 'broken') };
    await mkdir(join(folder, 'broken/fleetctl'), { recursive: true });
    await writeFile(join(folder, 'broken/fleetctl/config.json'), '{');
    for (const words of [['config'], ['config', 'set', 'url', url]])
      expect(await run(words, { env })).toMatchObject({ code: 2, error: expect.stringContaining('not valid JSON') });
    const missing = { TOOLFLEET_API_KEY_FILE: join(folder, 'none') };
    expect((await run(['tools'], { env: missing })).code).toBe(0); // a key in the environment comes first
    const keyless = { ...missing, TOOLFLEET_API_KEY: '' };
    expect(await run(['tools'], { env: keyless })).toMatchObject({
      code: 2,
      error: expect.stringContaining('KEY_FILE'),
    });
  });
});
