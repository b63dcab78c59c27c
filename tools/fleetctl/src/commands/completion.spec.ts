import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { CALCULATOR, routes, run } from '../fleetctl.fixture.js';

const next = async (...words: string[]) => (await run(['completion', 'words', '--', ...words])).out.split('\n');

describe('completion', () => {
  it('knows commands, what may follow them, and their options', async () => {
    expect(await next()).toEqual(expect.arrayContaining(['call', 'jobs', 'tool', 'help', 'config']));
    expect(await next('tool')).toEqual(['new', '']);
    expect(await next('keys')).toEqual(['list', 'create', 'revoke', '']);
    expect(await next('keys', 'create', 'ci')).toEqual(expect.arrayContaining(['--tools', '--expires', '--json']));
    expect(await next('config', 'set')).toEqual(['url', 'api_key', '']);
    expect(await next('usage')).toEqual(expect.arrayContaining(['--by', '--from', '--to']));
    expect(await next('nonsense', 'x')).toEqual(['']);
  });

  it('asks the fleet for tools, their arguments and the values of these', async () => {
    expect(await next('call')).toEqual(['calculator', 'other', '']);
    expect(await next('describe')).toEqual(['calculator', 'other', '']);
    expect(await next('call', 'calculator')).toEqual(expect.arrayContaining(['--expression', '--digits', '--async']));
    routes.set('GET /api/v1/tools/calculator', () => ({
      status: 200,
      body: { ...CALCULATOR, parameters: { properties: { mode: { enum: ['exact', 'fast'] } } } },
    }));
    expect(await next('call', 'calculator', '--mode')).toEqual(['exact', 'fast', '']);
  });

  it.each(['bash', 'zsh', 'fish'])('has a script for %s', async (shell) => {
    const { out, code } = await run(['completion', shell]);
    expect([code, out.includes('fleetctl completion words --')]).toEqual([0, true]);
    expect((await run(['completion', 'tcsh'])).code).toBe(2);
  });

  it('completes in a real bash', async () => {
    const { out } = await run(['completion', 'bash']);
    const script = `fleetctl() { [ "$1/$2/$3/$4/$5" = completion/words/--/call/calc ] && printf '%s\\n' --expression --exact --digits; }
${out}
COMP_WORDS=(fleetctl call calc --ex); COMP_CWORD=3; _fleetctl; echo "\${COMPREPLY[@]}"`;
    expect(execFileSync('bash', ['-c', script], { encoding: 'utf8' })).toBe('--expression --exact\n');
  });
});
