import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { answers, startBroker, type BrokerProcess } from './broker-process.js';
import { natsUsers, passwordFor } from './deployed-users.js';

/** A NATS server for a test. It runs deploy/nats.conf with one more user, `fleet`, who may do everything. */
export interface NatsServer extends BrokerProcess {
  /** `nats://127.0.0.1:<port>`: without a login, as `fleet`; with tenants, the login of `fleet`. */
  readonly url: string;
  /** URL of a tenant's user, for the subjects of that tenant only. */
  tenantUrl(tenant: string): string;
  /** Address and login of a user of the file; undefined for others. */
  loginOf(user: string): { url: string; user: string; password: string } | undefined;
  /** Restarts the server with another password of a user: it reads them from its environment, so a reload would not do. */
  changePassword(user: string, password: string): Promise<void>;
  /** Lines of its log with what it refused. */
  refusals(): Promise<string[]>;
}

/** Options of a test server. */
export interface NatsServerOptions {
  /** Each gets a copy of the user `acme` of the file. Connections need a login then. */
  tenants?: readonly string[];
  /** Largest message in bytes; default: that of the file. */
  maxPayload?: number;
}

const ADMINISTRATOR = 'fleet';

/** Starts a NATS server on a free loopback port. */
export async function startNats(options: NatsServerOptions = {}): Promise<NatsServer> {
  const { tenants, maxPayload } = options;
  const { text, users } = await natsUsers();
  // Read at each start.
  const env = Object.fromEntries([...users.values()].map(({ key, value }) => [key, value]));
  const broker = await startBroker({
    name: 'nats-server',
    programs: ['nats-server', '/usr/sbin/nats-server'],
    env,
    async args(port, folder) {
      const file = join(folder, 'nats.conf');
      await writeFile(file, configuration(text, { tenants, maxPayload }));
      return ['-c', file, '-a', '127.0.0.1', '-p', String(port), '-l', join(folder, 'nats.log')];
    },
    serves: (port) => answers(port, '', 'INFO {'),
  });
  const address = `127.0.0.1:${broker.port}`;
  const at = (user: string): string => `nats://${user}:${passwordFor(user)}@${address}`;
  return Object.assign(broker, {
    url: tenants ? at(ADMINISTRATOR) : `nats://${address}`,
    tenantUrl: at,
    loginOf: (user: string) =>
      users.has(user) ? { url: `nats://${address}`, user, password: passwordFor(user) } : undefined,
    async changePassword(user: string, password: string) {
      env[users.get(user)!.key] = `"${password}"`;
      await broker.restart();
    },
    async refusals() {
      const lines = (await readFile(join(broker.folder, 'nats.log'), 'utf8')).split('\n');
      return lines.filter((line) => /violation|authorization|not permitted/i.test(line));
    },
  });
}

function configuration(text: string, { tenants, maxPayload }: NatsServerOptions): string {
  const [ofTenant = ''] = /\{ user: acme,[\s\S]*?\n {4}\}/.exec(text) ?? [];
  const copies = (tenants ?? [])
    .filter((tenant) => tenant !== 'acme')
    .map((tenant) => ofTenant.replaceAll('acme', tenant).replace(/\$\w+/, `"${passwordFor(tenant)}"`));
  const added = [`{ user: ${ADMINISTRATOR}, password: "${passwordFor(ADMINISTRATOR)}" }`, ...copies];
  const file = text.replace('users: [', `users: [\n${added.join('\n')}`);
  const sized = maxPayload === undefined ? file : file.replace(/^max_payload: .*/m, `max_payload: ${maxPayload}`);
  return tenants ? sized : `${sized}\nno_auth_user: ${ADMINISTRATOR}\n`;
}
