/** The files of deploy/ with which brokers of tests run, so that they restart as an operator's do. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/** Path of a file of deploy/. */
export const deployedFile = (name: string): string =>
  fileURLToPath(new URL(`../../../deploy/${name}`, import.meta.url));

/** Password of a user of these files. */
export const passwordFor = (user: string): string => `pw-${user}`;

/** Users of deploy/redis.acl.template and redis-failover.acl.template with their passwords, as lines of an ACL file. */
export async function redisUsers(): Promise<string[]> {
  const files = ['redis.acl.template', 'redis-failover.acl.template'];
  const texts = await Promise.all(files.map((name) => readFile(deployedFile(name), 'utf8')));
  return texts
    .flatMap((text) => text.split('\n'))
    .filter((line) => line.startsWith('user '))
    .map((line) => line.replaceAll(/\$\{\w+\}/g, passwordFor(line.split(' ')[1]!)));
}

/** Variables of the passwords in deploy/nats.conf by user, quoted as the server wants them, and the text of the file. */
export async function natsUsers(): Promise<{ text: string; users: Map<string, { key: string; value: string }> }> {
  const text = await readFile(deployedFile('nats.conf'), 'utf8');
  const found = [...text.matchAll(/user: ([\w-]+), password: \$(\w+)/g)];
  const users = found.map(([, user = '', key = '']) => [user, { key, value: `"${passwordFor(user)}"` }] as const);
  return { text, users: new Map(users) };
}
