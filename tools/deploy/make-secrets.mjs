/**
 * `node tools/deploy/make-secrets.mjs [folder]`: makes the secret files that docker-compose.yml mounts, each once; what is
 * there stays. Default folder: `.secrets` of the repository. The keys of outside services start empty: put yours in.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const folder = process.argv[2] ?? join(ROOT, '.secrets');
const read = (path) => readFileSync(join(ROOT, path), 'utf8');

/** Names of the passwords in the broker files: these files are the only list. */
const passwords = [
  ...read('deploy/nats.conf').matchAll(/\$(NATS_\w+_PASSWORD)/g),
  ...read('deploy/redis.acl.template').matchAll(/\$\{(REDIS_\w+_PASSWORD)\}/g),
].map((match) => match[1]);
const generated = [
  ...new Set(passwords),
  'postgres_password',
  'dev_api_key',
  'gateway_token_secret',
  'api_key_pepper',
  'registry_secret_key',
  'records_secret_key',
  'grafana_admin_password',
];

mkdirSync(folder, { recursive: true, mode: 0o700 });
let made = 0;
for (const name of generated) made += write(name, randomBytes(32).toString('hex'));
// A ring of one key: <id>:<key>.
made += write('identity_secret_keys', `k1:${randomBytes(32).toString('hex')}`);
for (const name of ['weather_api_key', 'github_token', 'llm_api_key', 'web_search_api_key']) made += write(name, '');
console.log(`${made} secret files made in ${folder}`);

/** Readable by the services' users, not the owner of files that compose mounts from the host. */
function write(name, value) {
  const path = join(folder, name);
  if (existsSync(path)) return 0;
  writeFileSync(path, value, { mode: 0o644 });
  return 1;
}
