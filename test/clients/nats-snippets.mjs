/** Runs the programs of docs/nats-api.md unchanged, if this machine has their compiler and library. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { clientVariables } from '../../tools/local/shell-file.mjs';

const PAGE = fileURLToPath(new URL('../../docs/nats-api.md', import.meta.url));
const run = promisify(execFile);
const RUN_WITHIN_MS = 120_000;
const debianVersion = (name) => `dpkg-query --show --showformat='\${Version}' ${name}`;
const npmVersion = (name) =>
  `node -p "require('${fileURLToPath(new URL('node_modules', import.meta.url))}/${name}/package.json').version"`;

/**
 * The programs: which block of the page, what it needs, how it runs as `FILE`, and how its client names its version. Blocks of npm
 * clients are found by their import, all others by their language.
 */
const PROGRAMS = [
  {
    client: 'nats (command line)',
    block: /^```sh\n(nats [^]*?)^```/m,
    file: 'call.sh',
    needs: 'command -v nats',
    install: 'https://github.com/nats-io/natscli/releases',
    command: 'sh call.sh',
    version: 'nats --version',
  },
  {
    client: 'nats-py',
    block: /^```python\n([^]*?)^```/m,
    file: 'call.py',
    needs: 'python3 -c "import nats"',
    install: 'pip install nats-py',
    command: 'python3 call.py',
    version: 'python3 -c "import importlib.metadata as m; print(m.version(\'nats-py\'))"',
  },
  {
    client: 'nats.go',
    block: /^```go\n([^]*?)^```/m,
    file: 'call.go',
    needs: 'command -v go && test -d /usr/share/gocode/src/github.com/nats-io/nats.go',
    install: 'apt-get install golang-go golang-github-nats-io-go-nats-dev',
    command: 'GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$PWD/cache go run call.go',
    version: debianVersion('golang-github-nats-io-go-nats-dev'),
  },
  {
    client: 'nats.c',
    block: /^```c\n([^]*?)^```/m,
    file: 'call.c',
    needs: 'command -v cc && echo "#include <nats/nats.h>" | cc -E -x c - -o call.i',
    install: 'apt-get install gcc libc6-dev libnats-dev',
    command: 'cc -Wall -Werror call.c -o call -lnats && ./call',
    version: debianVersion('libnats-dev'),
  },
  ...['nats', '@nats-io/transport-node'].map((name) => ({
    client: name,
    block: new RegExp(`^\`\`\`js\\n(import [^\\n]* from '${name}';\\n[^]*?)^\`\`\``, 'm'),
    file: 'call.mjs',
    needs: 'command -v node',
    install: `npm install ${name}`,
    command: 'node call.mjs',
    version: npmVersion(name),
  })),
];

/**
 * @param {{nats_url: string, api_key: string}} fleet
 * @returns {Promise<{client: string, version: string, outcome: string, evidence: string}[]>} `skipped` names what is missing
 */
export async function runNatsSnippets(fleet) {
  const page = readFileSync(PAGE, 'utf8');
  const rows = [];
  for (const program of PROGRAMS) rows.push(await runProgram(program, page, fleet));
  return rows;
}

async function runProgram({ client, block, file, needs, install, command, version }, page, fleet) {
  const text = block.exec(page)?.[1];
  if (text === undefined)
    return { client, version: '', outcome: 'failed', evidence: 'docs/nats-api.md has no such block' };
  // In the folder of the clients, so that Node finds their packages.
  const folder = mkdtempSync(
    join(file.endsWith('.mjs') ? fileURLToPath(new URL('.', import.meta.url)) : tmpdir(), 'nats-snippet-'),
  );
  const shell = (line) =>
    run('sh', ['-c', line], {
      cwd: folder,
      timeout: RUN_WITHIN_MS,
      env: { ...process.env, ...clientVariables(fleet) },
    });
  try {
    writeFileSync(join(folder, file), text);
    const isThere = await shell(needs).then(
      () => true,
      () => false,
    );
    if (!isThere) return { client, version: '', outcome: 'skipped', evidence: `not found; ${install}` };
    const { stdout } = await shell(command);
    const known = (await shell(version)).stdout.trim();
    const answered = /\b42\b/.test(stdout);
    return { client, version: known, outcome: answered ? 'passed' : 'failed', evidence: stdout.trim().slice(0, 160) };
  } catch (error) {
    return { client, version: '', outcome: 'failed', evidence: String(error.stderr || error.message).slice(0, 400) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
