import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { toCurl } from './to-curl.js';

it('is one command of a shell, whatever the arguments are, and holds no key', () => {
  const args = { code: `print('it''s')\n# $HOME \`id\` "x" \\`, n: 1 };
  const command = toCurl('http://127.0.0.1:8080', 'execute_python', args);
  expect(command).toContain('"Authorization: Bearer $TOOLFLEET_API_KEY"');
  const words = execFileSync('sh', ['-c', command.replace(/^curl/, String.raw`printf '%s\0'`)], {
    env: { TOOLFLEET_API_KEY: 'tf_key' },
    encoding: 'utf8',
  }).split('\0');
  expect(words.slice(0, -1)).toEqual([
    '-s',
    'http://127.0.0.1:8080/api/v1/tools/execute_python/execute',
    '-H',
    'Authorization: Bearer tf_key',
    '-H',
    'Content-Type: application/json',
    '-d',
    JSON.stringify({ arguments: args }),
  ]);
});
