import { execFileSync, spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CALCULATOR, folder, routes, run, seen, serveGateway } from '../fleetctl.fixture.js';

serveGateway();

/** Only bash is on every machine: where another shell is missing, its test shows as skipped. */
const isInstalled = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0;

const next = async (...words: string[]) => (await run(['completion', 'words', '--', ...words])).out.split('\n');

describe('completion', () => {
  it('knows commands, what may follow them, and their options', async () => {
    expect(await next()).toEqual(expect.arrayContaining(['call', 'calls', 'tool', 'help', 'config']));
    expect(await next('tool')).toEqual(['new', '']);
    expect(await next('keys')).toEqual(['list', 'create', 'revoke', 'roles', '']);
    expect(await next('keys', 'create', 'ci')).toEqual(expect.arrayContaining(['--tools', '--expires', '--json']));
    expect(await next('config', 'set')).toEqual(['url', 'api_key', '']);
    expect(await next('usage', 'forecast')).toEqual(expect.arrayContaining(['--by', '--from', '--to']));
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

  it('completes the tools of a toolset', async () => {
    expect(await next('call', '--toolset', 'support')).toEqual(['calculator', 'other', '']);
    expect(await next('call', 'calculator', '--toolset', 'support')).toContain('--expression');
    routes.set('GET /api/v1/tools', () => ({ status: 200, body: ['find_customer'] }));
    expect(await next('tools', 'stubs', '--toolset', 'support')).toEqual(['find_customer', '']);
    expect(seen.map(({ path }) => path)).toEqual([
      '/api/v1/tools?toolset=support',
      '/api/v1/tools/calculator?toolset=support',
      '/api/v1/tools?detail=names&toolset=support',
    ]);
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

  it.skipIf(!isInstalled('zsh'))('completes in a real zsh, at its prompt', async () => {
    const setup = join(folder, 'setup.zsh');
    await writeFile(
      setup,
      `PS1=''; autoload -Uz compinit; compinit -u -D
fleetctl() {
  case "$*" in
    'completion words -- call calc') print -l -- --expression --exact --digits ;;
    *) print "ran <$*>" ;;
  esac
}
${(await run(['completion', 'zsh'])).out}
print is-ready`,
    );
    // A separate terminal: only there zsh completes as it does for a person. `--exp` and Tab, then the rest of the line.
    const typed = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ${setup}'
zpty -r -m shell seen '*is-ready*'
zpty -w -n shell $'fleetctl call calc --exp\t'
zpty -w shell '1+1'
zpty -r -m shell seen '*ran <*>*'
print -r -- "$seen"`;
    const shown = execFileSync('zsh', ['-f', '-c', typed], { encoding: 'utf8', timeout: 30_000 });
    expect(shown).toContain('ran <call calc --expression 1+1>');
  });

  it.skipIf(!isInstalled('fish'))('completes in a real fish', async () => {
    const script = `function fleetctl
  test "$argv" = 'completion words -- call calc'; and printf '%s\\n' --expression --exact --digits
end
${(await run(['completion', 'fish'])).out}
complete -C 'fleetctl call calc --ex'`;
    const env = { ...process.env, HOME: folder };
    const found = execFileSync('fish', ['--no-config', '-c', script], { encoding: 'utf8', timeout: 30_000, env });
    expect(found.split('\n')).toEqual(expect.arrayContaining(['--expression', '--exact']));
    expect(found).not.toContain('--digits');
  });

  /** What a hostile tool may call itself, its arguments and their values; each leaves a file when a shell evaluates it. */
  const HOSTILE = [
    '$(touch pwned)',
    '`touch pwned`',
    ';touch pwned;',
    '&touch pwned&',
    '|touch pwned|',
    '>pwned',
    '<(touch pwned)',
    '=(touch pwned)',
    '${x:=$(touch pwned)}',
    '$((a[$(touch pwned)]))',
    '"$(touch pwned)"',
    "'; touch pwned; '",
    '(touch pwned)',
    '{touch,pwned}',
    '~',
    '=ls',
    '*',
    '!!',
    '-x',
    'two words',
    'two\nlines',
    '\u001b]0;title\u0007',
    '\u202egnp',
  ];

  it('offers plain words of tools only', async () => {
    const properties = Object.fromEntries(HOSTILE.map((name) => [name, { type: 'string' }]));
    const to = { enum: [...HOSTILE, 'plain', 'München', 'a-b', 5] };
    routes.set('GET /api/v1/tools', () => ({
      status: 200,
      body: [...HOSTILE, 'fine_tool'].map((name) => ({ ...CALCULATOR, name })),
    }));
    routes.set('GET /api/v1/tools/evil', () => ({
      status: 200,
      body: { ...CALCULATOR, name: 'evil', parameters: { properties: { ...properties, to } } },
    }));
    expect(await next('call')).toEqual(['fine_tool', '']);
    expect(await next('call', 'evil', '--to')).toEqual(['plain', 'München', 'a-b', '5', '']);
    const words = await next('call', 'evil');
    expect(words[0]).toBe('--to');
    expect(words.filter((word) => !/^--[a-z-]+$|^$/.test(word))).toEqual([]);
  });

  it('shows an example that can be pasted', async () => {
    routes.set('GET /api/v1/tools/evil', () => ({
      status: 200,
      body: { ...CALCULATOR, name: 'evil', parameters: { properties: {}, required: ['to', "a'$(touch pwned)"] } },
    }));
    const { out } = await run(['describe', 'evil']);
    expect(out.trimEnd().split('\n').at(-1)).toBe(`fleetctl call evil --to … '--a'\\''$(touch pwned)' …`);
  });

  /** The scripts alone, given what a program without the filter would print. */
  const list = async () => {
    const path = join(folder, 'hostile.txt');
    await writeFile(path, [...HOSTILE.filter((one) => !one.includes('\n')), 'plain', ''].join('\n'));
    return path;
  };
  const nothingRan = async () => expect((await readdir(folder)).filter((name) => name.includes('pwned'))).toEqual([]);
  const env = () => ({ ...process.env, HOME: folder });

  it('evaluates no candidate in bash, nor puts one on the line', async () => {
    const script = `fleetctl() { cat ${await list()}; }
${(await run(['completion', 'bash'])).out}
COMP_WORDS=(fleetctl call evil --to ''); COMP_CWORD=4; _fleetctl; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const found = execFileSync('bash', ['-c', script], { encoding: 'utf8', cwd: folder, env: env() });
    expect(found.split('\n')).toEqual(['-x', 'plain', '']);
    await nothingRan();
  });

  it('does not evaluate words of the command line in bash', async () => {
    const script = `fleetctl() { printf '%s\\n' "$@" > seen.txt; }
${(await run(['completion', 'bash'])).out}
COMP_WORDS=(fleetctl call '$(touch pwned)' '\`touch pwned\`' ''); COMP_CWORD=4; _fleetctl`;
    execFileSync('bash', ['-c', script], { cwd: folder, env: env() });
    expect(await readFile(join(folder, 'seen.txt'), 'utf8')).toContain('$(touch pwned)\n`touch pwned`');
    await nothingRan();
  });

  it.skipIf(!isInstalled('zsh'))('evaluates no candidate in zsh, and quotes what it inserts', async () => {
    const setup = join(folder, 'hostile.zsh');
    await writeFile(
      setup,
      `PS1=''; autoload -Uz compinit; compinit -u -D; cd ${folder}
fleetctl() { if [[ $1 == completion ]]; then print -r -- '$(touch pwned)x'; else print -r -- "ran <$*>"; fi; }
${(await run(['completion', 'zsh'])).out}
print is-ready`,
    );
    const typed = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ${setup}'
zpty -r -m shell seen '*is-ready*'
zpty -w -n shell $'fleetctl call evil --to \t'
zpty -w shell end
zpty -r -m shell seen '*ran <*>*'
print -r -- "$seen"`;
    const shown = execFileSync('zsh', ['-f', '-c', typed], { encoding: 'utf8', timeout: 30_000, env: env() });
    expect(shown).toContain('ran <call evil --to $(touch pwned)x end>');
    await nothingRan();
  });

  it.skipIf(!isInstalled('fish'))('evaluates no candidate in fish', async () => {
    const script = `function fleetctl
  cat ${await list()}
end
${(await run(['completion', 'fish'])).out}
complete -C 'fleetctl call evil --to '`;
    const found = execFileSync('fish', ['--no-config', '-c', script], {
      encoding: 'utf8',
      timeout: 30_000,
      env: env(),
      cwd: folder,
    });
    expect(found).toContain('plain');
    await nothingRan();
  });
});
