/**
 * Runs in the view of `test/bare-machine.sh`, in a private folder that holds a copy of `tools/local`: how a start gets its brokers on a
 * machine without them. Prints one JSON object: case → what `brokerPrograms` said, gave and threw.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { chmodSync, globSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const clone = process.cwd();
const state = join(clone, '.toolfleet');
const unpacked = join(state, 'broker-programs');
const LOOK = `
  const { brokerPrograms } = await import('./tools/local/broker-programs.mjs');
  const said = [];
  const told = await brokerPrograms(process.cwd(), (line) => said.push(line)).catch((error) => ({ error: error.message }));
  console.log(JSON.stringify({ ...told, said }));`;
const outcomes = {};

/** Looks for the brokers in a separate process, and runs what was found. */
async function look(name, env = {}, wrap = []) {
  const [command, ...args] = [...wrap, process.execPath, '--input-type=module', '-e', LOOK];
  const child = spawn(command, args, { cwd: clone, env: { ...process.env, ...env } });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  await new Promise((resolve) => child.once('close', resolve));
  const told = JSON.parse(output.trim().split('\n').at(-1));
  const versionOf = (program) => program && spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout.trim();
  outcomes[name] = {
    ...told,
    versions: [versionOf(told.nats), versionOf(told.redis)],
    left: readdirSync(state),
  };
}

mkdirSync(state, { recursive: true });
const file = (name, text) => {
  writeFileSync(join(clone, name), text);
  return join(clone, name);
};

// Failures first: nothing is unpacked yet. Those that wait do so side by side.
const proxy = createServer((_request, response) => response.writeHead(407).end()).listen(0, '127.0.0.1');
await new Promise((resolve) => proxy.once('listening', resolve));
const refusing = `http://127.0.0.1:${proxy.address().port}`;
const riscv = file('riscv.conf', 'APT::Architecture "riscv64"; APT::Architectures { "riscv64"; };\n');
await Promise.all([
  look('a proxy that refuses', { http_proxy: refusing, https_proxy: refusing }),
  look('no network', {}, ['unshare', '--net']),
  look('an architecture without packages', { APT_CONFIG: riscv }),
]);
proxy.close();
const leftByFailures = readdirSync(state);
const bin = join(clone, 'bin');
mkdirSync(bin);
symlinkSync(process.execPath, join(bin, 'node'));
for (const system of ['alpine', 'fedora', 'arch', 'void']) {
  writeFileSync('/etc/os-release', `NAME=x\nID=${system}\n`);
  await look(`no apt: ${system}`, { PATH: bin });
}

// A program on PATH without its libraries, and archives of missing libraries in apt's cache.
writeFileSync(
  join(bin, 'redis-server'),
  '#!/bin/sh\necho "liblzf.so.1: cannot open shared object file" >&2; exit 127\n',
);
chmodSync(join(bin, 'redis-server'), 0o755);
mkdirSync('/var/cache/apt/archives/partial', { recursive: true });
execFileSync('apt-get', ['-o', 'APT::Sandbox::User=root', 'download', 'liblzf1', 'libjemalloc2'], {
  cwd: '/var/cache/apt/archives',
  stdio: 'ignore',
});
const withBroken = { PATH: [bin, process.env.PATH].join(delimiter) };
await look('brokers absent, archives cached', withBroken);
await look('the second start', withBroken);
const [library] = globSync(join(unpacked, 'usr/lib/*/liblzf.so.1'));
rmSync(library);
// A start that was killed while it unpacked; no package lists.
mkdirSync(join(state, 'broker-programs.999999999.x/made/bin'), { recursive: true });
rmSync('/var/lib/apt/lists', { recursive: true, force: true });
await look('a broken folder', withBroken);
for (const name of ['a proxy that refuses', 'no network', 'an architecture without packages']) {
  outcomes[name].left = leftByFailures;
}
process.stdout.write(JSON.stringify(outcomes));
